"""Tests in headless Chromium of ways to lose a word: storage that fails during an answer, two tabs that edit the same message,
a clock that is set back, a tab that closes during an edit, a dialog that is left, a browser that makes room."""

import json

import browser
import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, begin_endless_answer, chromium, page, server  # noqa: F401: fixtures
from test_page_exchange import import_file
from test_page_storage import QUESTIONS, SHOWN, reload, tabs  # noqa: F401: a fixture
from test_page_versions import retry_endlessly, step, versions
from test_serve import TOOLS

# Whether the browser would ask before it closes the page.
WARNS = "((event) => (dispatchEvent(event), event.defaultPrevented))(new Event('beforeunload', {cancelable: true}))"
FILL = """(window.put = IDBObjectStore.prototype.put,
  IDBObjectStore.prototype.put = () => { throw new DOMException("full", "QuotaExceededError"); }, 0)"""
EMPTY = "(IDBObjectStore.prototype.put = window.put, 0)"


def test_a_storage_that_fills_up_during_an_answer_loses_nothing(page):
    begin_endless_answer(page)
    assert not page.js(WARNS)
    page.js(FILL)
    page.wait("document.getElementById('notice').innerText.includes('storage for this page is full')")
    begun = page.text(".answer")
    page.wait("document.querySelector('.answer').innerText.length > arguments[0]", len(begun) + 30)
    page.click("#stop")
    page.wait_for_end()
    shown = page.js(SHOWN)
    assert page.js(WARNS)
    page.js(EMPTY)
    page.ask(QUESTION)
    page.wait("document.getElementById('notice').innerText === ''")
    assert not page.js(WARNS)
    reload(page)
    assert page.js(SHOWN).startswith(shown.split("Stopped.")[0].strip()[:200]) and page.js(QUESTIONS)[-1] == QUESTION
    page.wait(f"{SHOWN}.includes(arguments[0])", shown.split("\n")[-2])


def test_a_storage_that_is_cleared_during_an_answer_is_filled_again(page, server):
    begin_endless_answer(page)
    page.command("Storage.clearDataForOrigin", origin=server.url, storageTypes="indexeddb")
    begun = page.text(".answer")
    page.wait("document.querySelector('.answer').innerText.length > arguments[0]", len(begun) + 60)
    page.click("#stop")
    page.wait_for_end()
    page.driver.execute_async_script("import('/page/storage/store.js').then((store) => store.write(store.listed()[0], [])).then(arguments[0])")
    shown = page.js(SHOWN)
    reload(page)
    assert page.js(SHOWN) == shown


def test_the_browser_asks_before_it_closes_a_page_whose_draft_is_not_stored(page):
    assert not page.js(WARNS)
    page.js("(window.transaction = IDBDatabase.prototype.transaction, IDBDatabase.prototype.transaction = () => { throw new DOMException('', 'UnknownError'); }, 0)")
    page.type("#input", "a draft")
    page.wait(WARNS)
    page.js("(IDBDatabase.prototype.transaction = window.transaction, 0)")
    page.type("#input", ".")
    page.wait(f"!{WARNS}")
    reload(page)
    assert page.js("document.getElementById('input').value") == "a draft."


def test_two_tabs_that_edit_the_same_message_both_keep_their_versions(page, tabs):
    first, second = tabs
    first()
    page.ask(QUESTION)
    second()
    page.click("nav .open")
    page.click(".turn.user .edit")
    page.fill(".turn.user textarea", "What is 2 + 2?")
    first()
    page.click(".turn.user .edit")
    page.fill(".turn.user textarea", "What is 1 + 1?")
    page.click(".turn.user button[type=submit]")
    page.wait_for_end()
    second()
    page.wait("document.querySelector('nav .open').textContent !== ''")
    assert page.js("document.querySelector('.turn.user textarea').value") == "What is 2 + 2?"  # the other tab's version does not replace it
    page.click(".turn.user button[type=submit]")
    page.wait_for_end()
    for switch in (first, second):
        switch()
        page.click("nav .open")
        page.wait("document.querySelector('.turn.user .versions:not([hidden])')")
        page.wait("document.querySelectorAll('.turn.user .versions [aria-hidden]')[0].textContent.endsWith('/3')")
    reload(page)
    found = set(page.js(QUESTIONS))
    for by in (-1, -1, 1, 1):
        page.js("((button) => button.disabled || button.click())(document.querySelectorAll('.turn.user .versions button')[arguments[0]])", 0 if by < 0 else 1)
        found |= set(page.js(QUESTIONS))
    assert found == {QUESTION, "What is 1 + 1?", "What is 2 + 2?"}


def test_versions_keep_their_order_and_times_are_right_when_the_clock_is_set_back(page):
    page.ask(QUESTION)
    page.js("(window.now = Date.now, Date.now = () => window.now() - 86_400_000, 0)")
    retry_endlessly(page)
    assert versions(page) == "2/2"
    page.click("#stop")
    page.wait_for_end()
    assert "-" not in page.js("[...document.querySelectorAll('.numbers')].at(-1).textContent")
    page.click(".turn.user .edit")
    page.fill(".turn.user textarea", "What is 2 + 2?")
    page.click(".turn.user button[type=submit]")
    page.wait_for_end()
    assert versions(page, 0) == "2/2"
    reload(page)
    assert versions(page, 0) == "2/2" and page.js(QUESTIONS) == ["What is 2 + 2?"]
    step(page, -1, turn=0)
    assert page.js(QUESTIONS) == [QUESTION] and versions(page) == "2/2"


def close_tab_and_open_another(page, server):
    driver, old = page.driver, page.driver.current_window_handle
    driver.switch_to.new_window("tab")
    new = driver.current_window_handle
    driver.execute_cdp_cmd("Target.closeTarget", {"targetId": old})
    driver.switch_to.window(new)
    page.watch = None
    page.go(server.url + "/")
    page.wait_for_end()
    page.click("nav .open")


def test_edits_and_results_that_were_not_sent_outlive_their_tab(page, server):
    page.settings(tools=json.dumps(TOOLS))
    page.ask("What is the weather in Oslo?")
    page.fill(".results textarea", "12 degrees and")
    page.click(".turn.user .edit")
    page.fill(".turn.user textarea", "What is the weather in Bergen")
    close_tab_and_open_another(page, server)
    assert page.js("document.querySelector('.turn.user textarea').value") == "What is the weather in Bergen"
    assert page.js("document.querySelector('.results textarea').value") == "12 degrees and"
    page.js("[...document.querySelectorAll('.turn.user button')].find((button) => button.textContent === 'Cancel').click()")
    page.js("document.querySelector('.results').requestSubmit()")
    page.wait_for_end()
    assert page.js("Object.keys(localStorage).filter((key) => key.startsWith('nibble.unsent'))") == []


def test_texts_of_deleted_conversations_are_removed_at_the_next_start(page):
    page.ask(QUESTION)
    page.click(".turn.user .edit")
    page.fill(".turn.user textarea", "half a question")
    page.js("localStorage.setItem('nibble.unsent damaged', '{')")
    page.js("document.querySelector('nav .delete').click()")
    page.click("#undo-delete")
    page.wait("document.querySelector('.turn.user textarea')?.value === 'half a question'")
    page.js("document.querySelector('nav .delete').click()")
    page.wait("document.querySelector('#undo:not([hidden])')")
    reload(page)
    assert page.js("Object.keys(localStorage).filter((key) => key.startsWith('nibble.unsent'))") == []


def test_settings_that_were_not_saved_are_not_left_without_a_question(page):
    page.click("#open-settings")
    page.press(Keys.ESCAPE)  # without changes
    page.wait("!document.getElementById('settings').open")
    page.click("#open-settings")
    page.type("#instructions", "Answer like a pirate.")
    assert page.js(WARNS)
    page.press(Keys.ESCAPE)
    page.driver.switch_to.alert.dismiss()
    assert page.find("#settings").is_displayed() and page.js("document.getElementById('instructions').value") == "Answer like a pirate."
    page.type("#instructions", Keys.ESCAPE)
    page.driver.switch_to.alert.accept()
    page.wait("!document.getElementById('settings').open")
    assert not page.js(WARNS)


def test_the_browser_is_asked_once_to_keep_the_conversations(page):
    count = page.command("Page.addScriptToEvaluateOnNewDocument", source="""
      window.asked = 0;
      StorageManager.prototype.persisted = async () => false;
      StorageManager.prototype.persist = async () => { ++window.asked; return false; };""")
    reload(page)
    assert page.js("window.asked") == 0  # not before the first question
    page.ask(QUESTION)
    page.wait("window.asked === 1")
    page.ask("What is 2 + 2?")
    reload(page)
    page.ask("What is 1 + 1?")
    assert page.js("window.asked") == 0
    page.command("Page.removeScriptToEvaluateOnNewDocument", **count)


def test_an_import_into_a_full_storage_is_shown_and_guarded(page, tmp_path):
    message = {"id": "a.0", "chat": "a", "parent": None, "created": 1, "role": "user", "content": "an imported question"}
    file = tmp_path / "file.json"
    file.write_text(json.dumps({"format": "nibble.conversations", "version": 1, "conversations": [{"id": "a", "messages": [message]}]}))
    page.js(FILL)
    import_file(page, file)
    page.wait("document.getElementById('notice').innerText.includes('full')")
    assert page.js("document.querySelector('nav .open').textContent") == "an imported question" and page.js(WARNS)
    page.js(EMPTY)
    page.click("nav .open")
    page.ask(QUESTION)
    page.wait(f"!{WARNS}")
    reload(page)
    assert page.js(QUESTIONS)[0] == "an imported question"


def test_settings_are_saved_for_the_conversation_that_they_were_opened_for(page):
    page.ask(QUESTION)
    page.click("#new")
    page.ask("What is 2 + 2?")
    page.click("#open-settings")
    page.fill("#instructions", "Answer like a pirate.")
    page.js("(history.back(), 0)")  # a button of the mouse or the browser, which no dialog prevents
    page.wait(f"JSON.stringify({QUESTIONS}) === arguments[0]", json.dumps([QUESTION], separators=(",", ":")))
    page.click("#save-settings")
    chips = "[...document.querySelectorAll('#other-chips button')].map((chip) => chip.dataset.setting)"
    assert "instructions" not in page.js(chips)
    page.js("[...document.querySelectorAll('nav .open')].find((item) => item.textContent === 'What is 2 + 2?').click()")
    assert "instructions" in page.js(chips)
    reload(page)
    assert "instructions" in page.js(chips)


def test_conversations_of_a_newer_version_stay_and_the_page_says_so(page, server):
    page.ask(QUESTION)
    raised = "const done = arguments[0]; const open = indexedDB.open('nibble', 2); open.onsuccess = () => { open.result.close(); done(true); }"
    assert page.driver.execute_async_script(raised)  # the page lets go of its connection
    reload(page)
    assert page.js("document.getElementById('notice').innerText").startswith("The conversations in this browser were stored by a newer version of nibble")
    page.ask("What is 2 + 2?")
    assert page.last(".answer") == "2 + 2 = 4." and page.js(WARNS)
    assert "newer version" in page.js("document.getElementById('notice').innerText")
    count = "const done = arguments[0]; indexedDB.open('nibble').onsuccess = ({target}) => { target.result.transaction('messages').objectStore('messages').count().onsuccess = (event) => { target.result.close(); done(event.target.result); }; }"
    assert page.driver.execute_async_script(count) == 2
    page.forget(server.url)  # else later tests could not open the database


def test_an_undo_after_an_import_keeps_the_messages_of_both(page, tmp_path):
    page.ask(QUESTION)
    chat = page.js("location.href.split('/').at(-1)")
    page.js("document.querySelector('nav .delete').click()")
    message = {"id": "a.0", "chat": chat, "parent": None, "created": 1, "role": "user", "content": "an imported question"}
    file = tmp_path / "file.json"
    file.write_text(json.dumps({"format": "nibble.conversations", "version": 1, "conversations": [{"id": chat, "messages": [message]}]}))
    import_file(page, file)
    page.wait("document.querySelectorAll('nav .open').length === 1")
    page.click("#undo-delete")
    page.wait(f"{QUESTIONS}.length === 1")
    found = set(page.js(QUESTIONS))
    for button in (0, 1):
        page.js("((button) => button.disabled || button.click())(document.querySelectorAll('.turn.user .versions button')[arguments[0]])", button)
        found |= set(page.js(QUESTIONS))
    assert found == {QUESTION, "an imported question"}
