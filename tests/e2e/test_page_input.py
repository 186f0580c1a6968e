"""Tests in headless Chromium of what reaches the page by keyboard and mouse: words of an input method, edits that are left or can't be
sent, dropped files."""

import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, begin_endless_answer, chromium, page, server  # noqa: F401: fixtures
from test_page_losses import WARNS
from test_page_storage import QUESTIONS, reload

DRAFT = "document.getElementById('input').value"
FIELD = "document.querySelector('.turn.user textarea')"


def compose(page, text):
    """Begins a word of an input method in the field with the focus."""
    page.command("Input.imeSetComposition", text=text, selectionStart=len(text), selectionEnd=len(text))


def key(page, name, code=229):
    """Presses a key that belongs to the input method; Windows reports each with the code 229."""
    for kind in ("rawKeyDown", "keyUp"):
        page.command("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)


@pytest.mark.parametrize("browser_name", ["Chromium", "Safari"])
def test_enter_that_takes_a_word_of_an_input_method_sends_nothing(page, browser_name):
    page.click("#input")
    if browser_name == "Chromium":
        compose(page, "にほんご")
        page.wait(f"{DRAFT} === 'にほんご'")
        key(page, "Enter", 13)
    page.command("Input.insertText", text="日本語")
    if browser_name == "Safari":  # it ends the composition before the key
        key(page, "Enter")
    assert page.js(QUESTIONS) == [] and page.js(DRAFT) == "日本語"
    page.type("#input", Keys.ENTER)
    assert page.js(QUESTIONS) == ["日本語"]
    page.press(Keys.ESCAPE)
    page.wait_for_end()


def test_escape_that_drops_a_word_of_an_input_method_stops_no_answer_and_ends_no_edit(page):
    page.ask(QUESTION)
    page.click(".turn.user .edit")
    page.fill(".turn.user textarea", "half an edit ")
    compose(page, "に")
    key(page, "Escape", 27)
    assert page.js(f"{FIELD}?.value").startswith("half an edit ")
    page.click(".turn.user form .tools button:not([type=submit])")
    page.js("document.querySelector('nav .rename').click()")
    page.fill("nav li input", "題")
    compose(page, "に")
    key(page, "Enter", 13)
    assert page.js("document.querySelector('nav li input') !== null")
    page.command("Input.insertText", text="名")
    page.type("nav li input", Keys.ENTER)
    page.wait("document.querySelector('nav .open').textContent.includes('名')")
    begin_endless_answer(page)
    page.click("#input")
    compose(page, "に")
    key(page, "Escape", 27)
    assert page.js("document.querySelector('[aria-busy=true]') !== null")
    page.fill("#input", "")
    page.click("#stop")
    page.wait_for_end()


def test_escape_asks_before_it_discards_an_edit(page):
    page.ask(QUESTION)
    page.click(".turn.user .edit")
    page.press(Keys.ESCAPE)  # without changes
    page.wait(f"!{FIELD}")
    page.click(".turn.user .edit")
    page.fill(".turn.user textarea", "What is 2 + 2?")
    page.type(".turn.user textarea", Keys.ESCAPE)
    page.driver.switch_to.alert.dismiss()
    assert page.js(f"{FIELD}.value") == "What is 2 + 2?"
    page.type(".turn.user textarea", Keys.ESCAPE)
    page.driver.switch_to.alert.accept()
    page.wait(f"!{FIELD}")
    assert page.js(QUESTIONS) == [QUESTION]


def test_an_edit_says_that_it_can_not_be_sent_during_an_answer(page):
    page.ask(QUESTION)
    page.click(".turn.user .edit")
    page.fill(".turn.user textarea", "What is 2 + 2?")
    assert page.find(".turn.user [type=submit]").is_enabled() and "The old one is kept" in page.text(".turn.user .note")
    begin_endless_answer(page)
    assert not page.find(".turn.user [type=submit]").is_enabled()
    assert page.text(".turn.user .note") == "Wait until the running answer ends, or stop it."
    page.type(".turn.user textarea", Keys.CONTROL + Keys.ENTER)
    assert page.js(f"{FIELD}.value") == "What is 2 + 2?"
    page.click("#stop")
    page.wait("!document.querySelector('.turn.user [type=submit]').disabled")
    page.click(".turn.user [type=submit]")
    page.wait_for_end()
    assert page.js(QUESTIONS) == ["What is 2 + 2?"] and page.last(".answer") == "2 + 2 = 4."


def test_the_browser_asks_before_it_closes_a_page_whose_edit_is_not_stored(page):
    page.ask(QUESTION)
    page.click(".turn.user .edit")
    page.js("(window.setItem = Storage.prototype.setItem, Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }, 0)")
    page.fill(".turn.user textarea", "half an edit")
    assert page.js(WARNS)
    page.js("(Storage.prototype.setItem = window.setItem, 0)")
    page.type(".turn.user textarea", ".")
    assert not page.js(WARNS)
    reload(page)
    assert page.js(f"{FIELD}.value") == "half an edit."
    page.click(".turn.user form .tools button:not([type=submit])")


def test_an_answer_without_text_has_nothing_to_copy(page):
    page.settings(max_tokens="4")
    page.ask(QUESTION)
    assert page.last(".end").startswith("Cut off") and page.last(".answer") == ""
    assert page.js("[...document.querySelectorAll('.turn.assistant .copy')].map((button) => button.hidden)") == [True]
    page.settings(max_tokens="")
    page.ask("What is 2 + 2?")
    assert page.js("[...document.querySelectorAll('.turn.assistant .copy')].map((button) => button.hidden)") == [True, False]


@pytest.mark.parametrize("place", ["header", "#list", "#log"])
def test_a_file_that_is_dropped_anywhere_is_attached(page, place):
    taken = page.js(
        """((place) => {
          const data = new DataTransfer();
          data.items.add(new File(["one\\n"], "a.txt"));
          const event = (type) => new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true});
          return ["dragover", "drop"].map((type) => !document.querySelector(place).dispatchEvent(event(type)));
        })(arguments[0])""",
        place,
    )
    assert taken == [True, True]  # else the browser leaves the page, and opens the file
    page.wait("document.querySelector('.file')?.innerText.startsWith('a.txt')")
    page.js("document.querySelector('.file [aria-label]').click()")


def test_an_edit_that_is_not_stored_can_be_reached_until_its_conversation_is_deleted(page):
    page.ask(QUESTION)
    page.click(".turn.user .edit")
    page.js("(window.setItem = Storage.prototype.setItem, Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }, 0)")
    page.fill(".turn.user textarea", "half an edit")
    page.click("#new")
    page.click("nav .open")
    assert page.js(f"{FIELD}.value") == "half an edit" and page.js(WARNS)
    page.js("document.querySelector('nav .delete').click()")
    assert not page.js(WARNS)  # it can't be reached any more
    page.click("#undo-delete")
    page.wait(f"{FIELD}?.value === 'half an edit'")
    assert page.js(WARNS)
    page.js("(Storage.prototype.setItem = window.setItem, 0)")
    page.click(".turn.user form .tools button:not([type=submit])")
    assert not page.js(WARNS)
