"""Tests in headless Chromium of what a user does with answers and conversations: continue, edit, delete and undo, pin, presets."""

import json

import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, begin_endless_answer, chromium, page, server, violations  # noqa: F401: fixtures
from test_page_exchange import export_all, import_file
from test_page_storage import QUESTIONS, reload, tabs  # noqa: F401: a fixture
from test_page_versions import step, versions

TITLES = "[...document.querySelectorAll('nav .open')].map((open) => open.textContent)"
GROUPS = "[...document.querySelectorAll('#conversations h2')].map((group) => group.textContent)"
XSS = "<img src=x onerror=alert(1)>"


# continue


def test_an_answer_that_was_cut_off_goes_on_as_a_new_version(page, server):
    page.settings(max_tokens="67")
    page.ask(QUESTION)
    begun = page.last(".answer")
    assert "token limit was reached" in page.last(".end") and begun and not begun.endswith("42.")
    page.settings(max_tokens="")
    page.click(".go-on")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    body = page.js("window.sent.at(-1)")
    assert body["continue_final_message"] is True
    assert body["messages"][-1] == {"role": "assistant", "content": begun, "reasoning_content": page.js("window.sent.at(-1).messages.at(-1).reasoning_content")}
    rest = json.loads(server.post("/v1/chat/completions", {"messages": body["messages"], "temperature": 0, "continue_final_message": True}, "Connection: close\r\n").makefile("rb").read().split(b"\r\n\r\n", 1)[1])
    assert page.last(".answer") == (begun + rest["choices"][0]["message"]["content"]).strip()
    assert page.last(".end") == "" and not page.js("document.querySelector('.go-on').checkVisibility()") and versions(page) == "2/2"
    reload(page)
    assert page.last(".answer").startswith(begun) and versions(page) == "2/2"
    step(page, -1)
    assert page.last(".answer") == begun


def test_reasoning_that_was_cut_off_goes_on(page):
    page.settings(max_tokens="20")
    page.ask(QUESTION)
    begun = page.js("document.querySelector('.reasoning .said').textContent")
    assert begun and page.last(".answer") == ""
    page.settings(max_tokens="")
    page.click(".go-on")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    assert page.js("document.querySelector('.reasoning .said').textContent").startswith(begun) and page.last(".answer") != ""


def test_a_continuation_of_which_nothing_came_leaves_no_version(page):
    begin_endless_answer(page)
    page.click("#stop")
    page.wait_for_end()
    begun = page.last(".answer")
    page.js("(window.real = window.fetch, window.fetch = () => Promise.reject(new TypeError('gone')), 0)")
    page.click(".go-on")
    page.wait("document.querySelector('.turn > .error:not([hidden])')")
    page.js("(window.fetch = window.real, 0)")
    assert page.last(".answer") == begun and versions(page) == "" and "can't be reached" in page.last(".error")
    reload(page)
    assert page.last(".answer") == begun and versions(page) == ""


def test_a_continuation_outlives_a_reload(page):
    begin_endless_answer(page)
    page.click("#stop")
    page.wait_for_end()
    begun = page.last(".answer")
    page.js("window.more = {min_tokens: 30000}")
    page.click(".go-on")
    page.wait("[...document.querySelectorAll('.answer')].at(-1).innerText.length > arguments[0]", len(begun) + 30)
    page.driver.refresh()
    page.wait("[...document.querySelectorAll('.answer')].at(-1)?.innerText.length > arguments[0]", len(begun) + 60)
    assert page.last(".answer").startswith(begun[:40]) and versions(page) == "2/2"
    page.click("#stop")
    page.wait_for_end()


# edit an answer


def test_an_edited_answer_is_a_version_that_the_model_sees(page):
    page.ask(QUESTION)
    page.click(".turn.assistant .edit")
    assert page.js("document.querySelector('.turn.assistant textarea').value") == "17 + 25 = 42."
    page.fill(".turn.assistant textarea", f"It is **43**. {XSS}")
    reload(page)
    assert page.js("document.querySelector('.turn.assistant textarea').value") == f"It is **43**. {XSS}"
    page.type(".turn.assistant textarea", Keys.CONTROL + Keys.ENTER)
    page.wait("!document.querySelector('.turn.assistant textarea')")
    assert page.last(".answer") == f"It is 43. {XSS}" and page.last(".end") == "Edited by you." and versions(page) == "2/2"
    assert page.js("window.sent.length") == 0
    page.ask("And 20 + 30?")
    assert page.js("window.sent.at(-1).messages")[1] == {"role": "assistant", "content": f"It is **43**. {XSS}"}
    step(page, -1, turn=1)
    assert page.last(".answer") == "17 + 25 = 42."


# delete and undo


@pytest.mark.parametrize("way", ["button", "keyboard"])
def test_a_deleted_conversation_comes_back_with_its_title_versions_and_draft(page, way):
    page.ask(QUESTION)
    page.click(".retry")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    page.type("#input", "a draft")
    shown = page.text("#turns")
    page.click("nav .pin")
    page.click("nav .delete")
    page.wait("document.querySelector('#undo:not([hidden])')")
    assert page.js(TITLES) == [] and page.find("#welcome").is_displayed() and page.text("#undo-text") == f"Deleted: {QUESTION}"
    assert page.driver.switch_to.active_element.get_attribute("id") == "undo-delete"
    assert violations(page, "light", 390) == []
    page.press(Keys.ENTER) if way == "button" else page.press(Keys.ALT, "z")
    page.wait("document.querySelectorAll('nav .open').length === 1")
    assert not page.find("#undo").is_displayed()
    assert page.text("#turns") == shown and page.js("document.getElementById('input').value") == "a draft" and page.js(GROUPS) == ["Pinned"]
    reload(page)
    page.wait("document.querySelectorAll('nav .open').length === 1")
    page.click("nav .open")
    assert page.text("#turns") == shown and versions(page) == "2/2" and page.js("document.getElementById('input').value") == "a draft"


@pytest.mark.parametrize("has_text", [True, False])
def test_a_conversation_that_is_deleted_during_an_answer_comes_back(page, has_text):
    if has_text:
        begin_endless_answer(page)
    else:
        page.js("(window.real = window.fetch, window.fetch = (address, options) => options?.body ? new Promise((resolve, reject) => "
                "options.signal.addEventListener('abort', () => reject(options.signal.reason))) : window.real(address, options), 0)")  # fmt: skip
        page.type("#input", QUESTION + Keys.ENTER)
        page.wait("document.querySelector('[aria-busy=true]')")
    begun = page.js("document.querySelector('.answer').innerText")
    page.click("nav .delete")
    page.wait("document.querySelector('#undo:not([hidden])')")
    page.click("#undo-delete")
    page.wait("document.querySelector('.turn.assistant .end')?.textContent.length > 0")
    for _ in range(2):
        assert page.last(".answer").startswith(begun) and page.last(".end") == ("Stopped." if has_text else "No answer yet.")
        assert len(page.js(QUESTIONS)) == 1 and not page.js("document.querySelector('[aria-busy=true]')")
        reload(page)


def test_a_deleted_conversation_stays_deleted_without_undo(page):
    page.ask(QUESTION)
    page.click("nav .delete")
    page.wait("document.querySelector('#undo:not([hidden])')")
    reload(page)
    assert page.js(TITLES) == [] and not page.find("#undo").is_displayed()
    assert page.driver.execute_async_script("import('/page/storage/database.js').then(async ({connect, readAll}) => arguments[0]((await readAll(await connect(), 'messages')).records.length))") == 0


def test_an_undo_shows_in_the_other_tab(page, tabs):
    first, second = tabs
    first()
    page.ask(QUESTION)
    page.click("nav .delete")
    second()
    page.wait("!document.querySelector('nav .open')")
    first()
    page.click("#undo-delete")
    second()
    page.wait("document.querySelectorAll('nav .open').length === 1")
    page.click("nav .open")
    page.wait(f"{QUESTIONS}.length === 1")


# pins


def test_pinned_conversations_are_listed_first_and_stay_so(page, tmp_path):
    page.ask(QUESTION)
    page.click("#new")
    page.ask("What is 2 + 2?")
    page.js("document.querySelectorAll('nav .pin')[1].click()")
    assert page.js(TITLES) == [QUESTION, "What is 2 + 2?"] and page.js(GROUPS) == ["Pinned", "Today"]
    assert page.driver.switch_to.active_element.accessible_name == f"Unpin: {QUESTION}"
    reload(page)
    assert page.js(GROUPS) == ["Pinned", "Today"] and page.js(TITLES)[0] == QUESTION
    file = export_all(page, tmp_path)
    for _ in range(2):
        page.js("document.querySelector('nav .delete').click()")
    path = tmp_path / "all.json"
    path.write_text(file.read_text())
    import_file(page, path)
    page.wait("document.querySelectorAll('nav .open').length === 2")
    assert page.js(GROUPS)[0] == "Pinned" and page.js(TITLES)[0] == QUESTION
    page.click("nav .pin")
    assert page.js(GROUPS)[0] != "Pinned"


# settings without the dialog


def test_the_effort_can_be_changed_below_the_message(page):
    page.ask(QUESTION)
    page.press(Keys.ALT, "e")
    assert page.driver.switch_to.active_element.get_attribute("id") == "effort-now"
    page.find("#effort-now").send_keys("Effort: high")
    page.click(".retry")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    assert page.js("window.sent.at(-1).reasoning_effort") == "high"
    page.click(".info")
    assert page.last(".numbers").endswith("effort high")
    step(page, -1)
    assert page.js("[...document.querySelectorAll('.numbers')].at(-1).textContent").endswith("effort medium")
    reload(page)
    assert page.js("document.getElementById('effort-now').value") == "high"
    page.click("#open-settings")
    assert page.js("document.getElementById('effort').value") == "high"


def test_statistics_stay_open_for_later_answers(page):
    page.ask(QUESTION)
    page.click(".info")
    page.ask("What is 2 + 2?")
    assert "tokens/s" in page.last(".numbers") and page.js("[...document.querySelectorAll('.numbers')].at(-1).checkVisibility()")
    reload(page)
    page.click(".info")
    reload(page)
    assert not page.find(".numbers").is_displayed()


def save_preset(page, name, **values):
    page.click("#open-settings")
    for field, value in values.items():
        page.fill(f"#{field}", value)
    page.click("#save-preset")
    prompt = page.driver.switch_to.alert
    prompt.send_keys(name)
    prompt.accept()
    page.wait("document.getElementById('preset-outcome').textContent !== ''")
    page.js("document.getElementById('cancel-settings').click()")


def test_presets_are_saved_chosen_exported_and_deleted(page, tmp_path):
    assert not page.find("#preset-now").is_displayed()
    save_preset(page, "Pirate", instructions="Talk like a pirate.", temperature="0")
    save_preset(page, XSS, instructions="Be brief.", temperature="0.5")
    reload(page)
    options = page.js("[...document.getElementById('preset-now').options].map((option) => option.textContent)")
    assert sorted(options) == sorted(["No preset", "Pirate", XSS])
    page.find("#preset-now").send_keys("Pirate")
    page.wait("document.querySelector('#chips [data-setting=instructions]')")
    page.ask(QUESTION)
    assert page.js("window.sent.at(-1).messages")[0] == {"role": "system", "content": "Talk like a pirate."}
    assert page.js("document.getElementById('preset-now').value") == "Pirate"
    for scheme in ("light", "dark"):
        assert violations(page, scheme, 390) == []
    exported = json.loads(export_all(page, tmp_path).read_text())
    assert [preset["name"] for preset in exported["presets"]] == sorted(["Pirate", XSS], key=str.lower)
    page.click("#open-settings")
    assert page.js("document.getElementById('preset').value") == "Pirate"
    assert violations(page, "light", 390) == []
    page.click("#delete-preset")
    page.driver.switch_to.alert.accept()
    assert page.js("document.getElementById('preset').options.length") == 2
    page.click("#cancel-settings")
    path = tmp_path / "all.json"
    path.write_text(json.dumps({**exported, "presets": [*exported["presets"], 7, {"name": "bad"}, {"name": "odd", "settings": {"temperature": "hot"}}]}))
    import_file(page, path)
    page.wait("document.getElementById('outcome').textContent !== ''")
    page.click("#open-settings")
    assert sorted(page.js("[...document.getElementById('preset').options].map((option) => option.textContent)")) == sorted(["none", "Pirate", "odd", XSS])
    page.find("#preset").send_keys("odd")
    assert page.js("document.getElementById('temperature').value") == ""
    page.click("#cancel-settings")


def test_the_title_of_the_tab_is_that_of_the_conversation(page):
    assert page.driver.title == "nibble"
    page.ask(QUESTION)
    assert page.driver.title == f"{QUESTION} – nibble"
    page.click("#new")
    assert page.driver.title == "nibble"
