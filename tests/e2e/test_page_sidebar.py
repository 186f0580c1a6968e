"""Tests in headless Chromium of the list of conversations: titles, search, dates and addresses."""

import json

import browser
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, any_page, chromium, page, server  # noqa: F401: fixtures

OTHER = "Sort 31, 5, 88."
TITLES = "[...document.querySelectorAll('nav .open')].map((open) => open.firstChild.textContent)"
kDay = 86_400_000


def two_conversations(page):
    page.ask(QUESTION)
    page.click("#new")
    page.ask(OTHER)


def import_file(page, tmp_path, *conversations):
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps({"format": "nibble.conversations", "version": 1, "conversations": conversations, "damaged": []}))
    page.find("#import-file").send_keys(str(file))
    page.wait("document.getElementById('outcome').textContent !== ''")


def question(chat, text, created):
    return {"id": f"{chat}.0", "chat": chat, "parent": None, "created": created, "role": "user", "content": text}


def test_a_title_can_be_changed_and_stays(page):
    page.ask(QUESTION)
    page.click("nav .rename")
    assert page.driver.switch_to.active_element.get_attribute("value") == QUESTION
    page.press(Keys.ESCAPE)
    assert page.js(TITLES) == [QUESTION]
    page.click("nav .rename")
    page.driver.switch_to.active_element.send_keys("Sums" + Keys.ENTER)
    assert page.js(TITLES) == ["Sums"]
    page.ask("And 20 + 30?")  # the conversation is saved again
    page.driver.refresh()
    page.wait_for_end()
    assert page.js(TITLES) == ["Sums"]
    page.click("nav .rename")
    page.driver.switch_to.active_element.send_keys(Keys.BACKSPACE + Keys.ENTER)
    assert page.js(TITLES) == [QUESTION]  # with an empty title, the first line is shown


def test_a_title_that_is_being_written_survives_an_answer(page):
    page.ask(QUESTION)
    page.type("#input", "And 20 + 30?" + Keys.ENTER)
    page.click("nav .rename")
    page.driver.switch_to.active_element.send_keys("Half")
    page.wait_for_end()
    assert page.driver.switch_to.active_element.get_attribute("value") == "Half"
    page.click("#input")  # leaves the field
    assert page.js(TITLES) == ["Half"] and page.driver.switch_to.active_element.get_attribute("id") == "input"


def test_titles_are_exported_and_imported(page, tmp_path):
    import_file(page, tmp_path, {"id": "a", "title": "Named", "leaf": "a.0", "draft": "", "messages": [question("a", "first", 1)]})
    assert page.js(TITLES) == ["Named"]
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=True)
    page.exchange("#export-all")
    file = tmp_path / "nibble-conversations.json"
    browser.WebDriverWait(page.driver, 30).until(lambda _: file.exists() and file.stat().st_size)
    assert json.loads(file.read_text())["conversations"][0]["title"] == "Named"


def test_the_search_covers_all_text(page):
    two_conversations(page)
    for words, titles in (("17", [QUESTION]), ("= 42", [QUESTION]), ("SORT 88", [OTHER]), ("", [OTHER, QUESTION]), ("17 sort", [])):
        page.fill("#search", words)
        assert page.js(TITLES) == titles, words
    assert page.find("#none-found").is_displayed()
    page.click("#search")
    page.press(Keys.ESCAPE)
    assert page.js(TITLES) == [OTHER, QUESTION] and not page.find("#none-found").is_displayed()


def test_the_list_is_grouped_by_date(page, tmp_path):
    today = page.js("new Date().setHours(0, 0, 0, 0)")
    times = {"b": today - 1, "c": today - 3 * kDay, "d": today - 20 * kDay, "e": page.js("new Date(2021, 4, 5).getTime()")}
    import_file(page, tmp_path, *({"id": id, "leaf": f"{id}.0", "draft": "", "messages": [question(id, id, time)]} for id, time in times.items()))
    page.ask(QUESTION)
    groups = "[...document.querySelectorAll('#conversations h2')].map((head) => [head.textContent, head.nextElementSibling.innerText.split('\\n')[0]])"
    assert page.js(groups) == [["Today", QUESTION], ["Yesterday", "b"], ["Last 7 days", "c"], ["Last 30 days", "d"], ["May 2021", "e"]]


def test_the_keyboard_reaches_the_list(page):
    two_conversations(page)
    page.press(Keys.ALT, "s")
    assert page.driver.switch_to.active_element.get_attribute("id") == "search"
    page.press(Keys.ARROW_DOWN)
    page.press(Keys.ARROW_DOWN)
    page.press(Keys.ENTER)
    assert page.text(".turn.user .said") == QUESTION


def test_each_conversation_has_an_address(page, server):
    assert page.js("location.pathname") == "/"
    two_conversations(page)
    second = page.js("location.pathname")
    page.js("[...document.querySelectorAll('nav .open')][1].click()")
    first = page.js("location.pathname")
    assert first.startswith("/c/") and second.startswith("/c/") and first != second
    page.driver.back()
    page.wait("document.querySelector('.turn.user .said').textContent === arguments[0]", OTHER)
    page.driver.forward()
    page.wait("document.querySelector('.turn.user .said').textContent === arguments[0]", QUESTION)
    page.go(server.url + second)
    page.wait_for_end()
    assert page.text(".turn.user .said") == OTHER
    assert page.js("getComputedStyle(document.body).display") == "grid"  # the style sheets are loaded
    page.ask("And 20 + 30?")
    assert page.js("location.pathname") == second
    page.click("header a[href$=status]")
    page.wait("location.pathname === '/status'")


def test_back_keeps_what_is_being_written(page):
    two_conversations(page)
    page.type("#input", "half a question")
    page.js("[...document.querySelectorAll('nav .open')][1].click()")
    page.driver.back()
    page.wait("document.getElementById('input').value === 'half a question'")


def test_an_unknown_address_opens_a_new_conversation_and_says_so(page, server):
    page.go(server.url + "/c/unknown")
    page.wait("document.getElementById('notice').textContent !== ''")
    assert "is not in this browser" in page.text("#notice") and page.find("#welcome").is_displayed()
    assert page.js("location.pathname") == "/"
    page.ask(QUESTION)
    assert page.last(".answer") == "17 + 25 = 42."


def marks(page):
    """Returns the texts that are marked."""
    return page.js("[...(CSS.highlights.get('found') ?? [])].map(String)")


def test_a_search_shows_the_text_around_its_words_and_leads_to_them(page, tmp_path):
    chat, parent, messages = "found", None, []
    for at in range(300):
        text = "The zebra is <b>striped</b>, as everybody knows who has seen one in the wild." if at == 41 else f"word{at} and more"
        role = {"role": "user"} if at % 2 == 0 else {"role": "assistant", "reasoning": "A quagga!" if at == 61 else "", "calls": [], "finish": "stop"}
        messages.append({"id": f"{chat}.{at}", "chat": chat, "parent": parent, "created": at, "content": text, **role})
        parent = messages[-1]["id"]
    import_file(page, tmp_path, {"id": chat, "title": "Long", "messages": messages, "leaf": parent})
    page.wait("document.querySelector('nav .open')")
    page.type("#search", "striped ZEBRA")
    page.wait("document.querySelector('nav .line')")
    assert page.text("nav .line").startswith("The zebra is <b>striped</b>, as everybody knows")
    page.click("nav .open")
    page.wait("CSS.highlights.has('found')")
    assert sorted(marks(page)) == ["striped", "zebra"]
    box = "[...CSS.highlights.get('found')][0].getBoundingClientRect()"
    page.wait(f"{box}.top > 0 && {box}.bottom < innerHeight")
    page.fill("#search", "quagga")
    page.wait("document.querySelector('nav .line')?.textContent.includes('quagga')")
    page.click("nav .open")
    page.wait("CSS.highlights.has('found')")
    assert marks(page) == ["quagga"]
    page.wait(f"{box}.height > 0 && {box}.top > 0 && {box}.bottom < innerHeight")  # its reasoning was unfolded
    page.click("#new")
    assert marks(page) == []


def test_a_search_leads_to_another_version(page):
    page.ask(QUESTION)
    page.click(".turn.user .edit")
    page.fill(".turn.user textarea", "What is 2 + 2?")
    page.click(".turn.user button[type=submit]")
    page.wait_for_end()
    page.type("#search", "carry 17")
    page.click("nav .open")
    page.wait("document.querySelector('.turn.user .said').textContent === arguments[0]", QUESTION)
