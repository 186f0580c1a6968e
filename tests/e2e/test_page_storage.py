"""Tests in headless Chromium that the page loses no conversation: with two tabs, when the tab or the server ends, with
damaged, full and blocked storage."""

import json

import browser
import ports
import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, begin_endless_answer, chromium, page, server  # noqa: F401: fixtures
from test_serve import serving

QUESTIONS = "[...document.querySelectorAll('.turn.user .said')].map((said) => said.textContent)"
OLD = {
    "id": "0011223344556677",
    "changed": 1700000000000,
    "messages": [
        {"role": "user", "content": "an old question"},
        {"role": "assistant", "content": "an old answer", "reasoning": "why", "calls": [], "isJson": False, "finish": "stop"},
        {"role": "user", "content": "another one"},
        {"role": "assistant", "content": "", "reasoning": "", "calls": [], "isJson": False, "error": "The server can't be reached. Is it running?"},
    ],
}


@pytest.fixture
def tabs(page, server):
    """Two tabs with the page, as functions that switch to them."""
    driver, first = page.driver, page.driver.current_window_handle
    driver.switch_to.new_window("tab")
    second = driver.current_window_handle
    page.command("Page.addScriptToEvaluateOnNewDocument", source=browser.kWatch)
    driver.get(server.url + "/")
    page.wait_for_end()
    yield lambda: driver.switch_to.window(first), lambda: driver.switch_to.window(second)
    driver.switch_to.window(first)
    for handle in driver.window_handles:
        if handle != first:
            driver.execute_cdp_cmd("Target.closeTarget", {"targetId": handle})


def database(page, script):
    """Runs JavaScript in a transaction on the page's database, with store(name) and await result(request)."""
    return page.driver.execute_async_script(
        """
        const done = arguments[0];
        const request = indexedDB.open("nibble");
        request.onsuccess = async () => {
          const result = (ask) => new Promise((resolve, reject) => { ask.onsuccess = () => resolve(ask.result); ask.onerror = () => reject(ask.error); });
          const transaction = request.result.transaction([...request.result.objectStoreNames], "readwrite");
          const store = (name) => transaction.objectStore(name);
          const run = async () => { %s };
          const told = await run();
          transaction.oncomplete = () => { request.result.close(); done(told ?? null); };
        };
        """
        % script
    )


ITEMS = "Object.keys(localStorage).filter((key) => key !== 'nibble.persistence')"  # that one is left once a question was asked
SHOWN = "document.getElementById('turns').innerText"


def reload(page):
    page.driver.refresh()
    page.wait_for_end()


# two tabs


def test_two_tabs_show_the_same(page, tabs):
    first, second = tabs
    first()
    page.ask(QUESTION)
    shown = page.js(SHOWN)
    second()
    page.wait("document.querySelectorAll('nav .open').length === 1")
    page.click("nav .open")
    assert page.js(SHOWN) == shown
    page.ask("What is 2 + 2?")
    shown = page.js(SHOWN)
    first()
    page.wait(f"{SHOWN} === arguments[0]", shown)
    second()
    page.click("nav .delete")
    first()
    page.wait("!document.querySelector('.turn') && !document.querySelector('nav .open')")


def test_a_tab_shows_the_answer_that_another_one_receives(page, tabs):
    first, second = tabs
    first()
    page.ask(QUESTION)
    second()
    page.click("nav .open")
    first()
    begin_endless_answer(page)
    second()
    page.wait("document.querySelectorAll('.turn').length === 4 && [...document.querySelectorAll('.answer')].at(-1).innerText.length > 100")
    first()
    page.click("#stop")
    page.wait_for_end()
    shown = page.js(SHOWN)
    second()
    page.wait(f"{SHOWN} === arguments[0]", shown)


def test_tabs_that_write_at_the_same_time_both_keep_their_messages(page, tabs):
    for switch in tabs:
        switch()
        page.js("(BroadcastChannel.prototype.postMessage = () => {}, 0)")  # changes do not reach other tabs
    first, second = tabs
    first()
    page.ask(QUESTION)
    second()
    reload(page)
    page.js("(BroadcastChannel.prototype.postMessage = () => {}, 0)")
    page.click("nav .open")
    for switch, text in zip(tabs, ("What is 1 + 1?", "What is 2 + 2?")):
        switch()
        page.js("(document.getElementById('input').value = arguments[0], document.getElementById('send').click())", text)
    for switch in tabs:
        switch()
        page.wait("document.querySelectorAll('.turn').length === 4")
        page.wait_for_end()
    reload(page)
    found = [page.js(QUESTIONS)]  # questions of the tab whose answer ended last
    assert page.last(".answer") != ""
    page.js("document.querySelectorAll('.turn')[2].querySelector('.versions button:enabled').click()")
    found.append(page.js(QUESTIONS))
    assert page.last(".answer") != ""
    assert sorted(found) == [[QUESTION, "What is 1 + 1?"], [QUESTION, "What is 2 + 2?"]]


# the tab or the server ends


def test_a_tab_that_dies_during_an_answer_loses_nothing_that_it_showed(page, tabs):
    first, second = tabs
    second()
    begin_endless_answer(page)
    page.wait("document.querySelector('.answer').innerText.length > 200")
    begun = page.text(".answer")
    page.driver.execute_async_script("setTimeout(arguments[0], 300)")  # the page saves every 200 ms
    with pytest.raises(Exception):
        page.command("Page.crash")
    first()
    reload(page)
    page.click("nav .open")
    page.wait("document.querySelector('[aria-busy=true] .answer')?.innerText.length > arguments[0]", len(begun))  # it goes on
    assert page.text(".answer").startswith(begun[:200])
    page.click("#stop")
    page.wait_for_end()
    assert page.last(".end") == "Stopped."
    page.click(".retry")
    page.wait("document.querySelector('.turn.assistant .versions').innerText.includes('2/2')")
    page.press(Keys.ESCAPE)
    page.wait_for_end()


def test_a_question_outlives_the_tab_before_its_answer(page):
    page.js("(window.fetch = () => new Promise(() => {}), 0)")
    page.type("#input", QUESTION + Keys.ENTER)
    page.wait("document.querySelectorAll('.turn').length === 2")
    reload(page)
    assert page.js(QUESTIONS) == [QUESTION] and page.last(".end") == "No answer yet."
    page.click(".retry")
    page.wait("window.sent.length === 1")
    page.wait_for_end()
    assert page.last(".answer") == "17 + 25 = 42." and not page.find(".turn.assistant .versions").is_displayed()


def test_a_server_that_dies_during_an_answer_leaves_what_came(chromium):
    port = ports.free_ports(1)[0]
    with serving(port=port) as first:
        chromium.go(first.url + "/")
        chromium.wait_for_end()
        chromium.ask("What is 1 + 1?")
        begin_endless_answer(chromium)
        chromium.wait("[...document.querySelectorAll('.answer')].at(-1).innerText.length > 100")
        first.process.kill()
        chromium.wait_for_end()
        assert "connection ended before the answer was complete" in chromium.last(".error")
        shown = chromium.last(".answer")
        assert len(shown) > 100
    with serving(port=port):
        reload(chromium)
        chromium.wait("document.body.innerText.includes('The rest of this answer is lost')")
        chromium.wait_for_end()
        assert chromium.last(".answer") == shown
        chromium.ask(QUESTION)
        assert len(chromium.js(QUESTIONS)) == 3 and chromium.last(".answer") != ""


# the storage of earlier versions


def test_old_conversations_are_moved_once(page):
    page.js("localStorage.setItem('nibble.chat.0011223344556677', arguments[0])", json.dumps(OLD))
    reload(page)
    assert page.js(ITEMS) == ["nibble.settings"]
    page.js("localStorage.setItem('nibble.chat.0011223344556677', arguments[0])", json.dumps(OLD))
    reload(page)
    assert page.js(ITEMS) == ["nibble.settings"]
    assert page.text("nav .open") == "an old question"
    page.click("nav .open")
    assert page.js(QUESTIONS) == ["an old question", "another one"]
    assert page.js("[...document.querySelectorAll('.answer')].map((answer) => answer.innerText)") == ["an old answer", ""]
    assert page.js("document.querySelector('.reasoning .said').textContent") == "why" and "can't be reached" in page.last(".error")
    assert page.js("[...document.querySelectorAll('.versions')].every((versions) => versions.hidden)")
    assert page.text("#notice") == ""


def test_an_old_conversation_stays_where_it_is_until_it_can_be_moved(page, server):
    page.js("localStorage.setItem('nibble.chat.0011223344556677', arguments[0])", json.dumps(OLD))
    blocked = page.command("Page.addScriptToEvaluateOnNewDocument", source="indexedDB.open = () => { throw new Error('blocked'); };")
    reload(page)
    page.click("nav .open")
    assert page.js(QUESTIONS) == ["an old question", "another one"] and "They last until the page is closed" in page.text("#notice")
    assert "nibble.chat.0011223344556677" in page.js(ITEMS)
    page.command("Page.removeScriptToEvaluateOnNewDocument", **blocked)
    reload(page)
    assert page.js(ITEMS) == ["nibble.settings"] and page.js(QUESTIONS) == ["an old question", "another one"]


# damaged, full, lost and blocked storage


def test_damaged_records_are_set_aside_and_reported(page):
    page.ask(QUESTION)
    page.ask("What is 2 + 2?")
    page.click("#new")
    page.ask("What is 3 + 3?")
    database(
        page,
        """
        const answer = (await result(store("messages").getAll())).find((message) => message.content === "17 + 25 = 42.");
        store("messages").put({...answer, content: 42});
        store("messages").put({chat: "x", id: "y"});
        store("drafts").put({id: "x", text: []});
        store("chats").put({id: "z", leaf: {}, changed: "never"});
        """,
    )
    page.js("localStorage.setItem('nibble.chat.1', '{\"id\": ')")
    page.js("localStorage.setItem('nibble.settings', '[')")
    reload(page)
    assert "damaged record" in page.text("#notice") and "could not be used" in page.text("#notice")
    assert page.js("[...document.querySelectorAll('nav .open')].map((item) => item.textContent)") == ["What is 3 + 3?", QUESTION]
    page.js("document.querySelectorAll('nav .open')[1].click()")
    assert page.js(QUESTIONS) == [QUESTION, "What is 2 + 2?"]  # the damaged answer between them is left out
    assert len(database(page, "return result(store('damaged').getAll())")) == 4
    assert page.js(ITEMS) == ["nibble.settings"]
    reload(page)
    assert page.text("#notice") == "" and page.js(QUESTIONS) == [QUESTION, "What is 2 + 2?"]
    page.ask(QUESTION)
    assert page.last(".answer") != ""


def test_a_record_that_cannot_be_read_does_not_hide_the_others(page):
    page.ask(QUESTION)
    broken = page.command(
        "Page.addScriptToEvaluateOnNewDocument",
        source="""
        IDBObjectStore.prototype.getAll = function () { throw new DOMException("Failed to read large IndexedDB value", "NotReadableError"); };
        const get = IDBObjectStore.prototype.get;
        let isFirst = true;
        IDBObjectStore.prototype.get = function (key) {
          if (isFirst && this.name === "messages" && this.transaction.mode === "readonly") { isFirst = false; throw new DOMException("broken", "DataError"); }
          return get.call(this, key);
        };
        """,
    )
    reload(page)
    assert "1 damaged record of the storage could not be read" in page.text("#notice")
    assert page.js("document.querySelectorAll('nav .open').length") == 1
    page.command("Page.removeScriptToEvaluateOnNewDocument", **broken)
    reload(page)
    assert page.js(QUESTIONS) == [QUESTION] and page.last(".answer") == "17 + 25 = 42." and page.text("#notice") == ""


@pytest.fixture
def full(page, server):
    """Makes the storage full before the first write: Chromium checks later ones against an old estimate."""
    page.command("Storage.overrideQuotaForOrigin", origin=server.url, quotaSize=1)
    yield lambda: page.command("Storage.overrideQuotaForOrigin", origin=server.url)
    page.command("Storage.overrideQuotaForOrigin", origin=server.url)


def test_a_full_storage_is_reported_and_what_was_unsaved_is_saved_later(page, full):
    page.ask(QUESTION)
    assert page.last(".answer") == "17 + 25 = 42." and "storage for this page is full" in page.text("#notice")
    full()
    page.ask("What is 2 + 2?")
    assert page.text("#notice") == ""
    shown = page.js(SHOWN)
    reload(page)
    assert page.js(SHOWN) == shown and page.js(QUESTIONS) == [QUESTION, "What is 2 + 2?"]


def test_what_was_unsaved_is_saved_when_another_conversation_is_written(page, full):
    page.ask(QUESTION)
    full()
    page.click("#new")
    page.ask("What is 2 + 2?")
    page.wait("document.getElementById('notice').innerText === ''")
    reload(page)
    assert page.js("[...document.querySelectorAll('nav .open')].map((open) => open.textContent)") == ["What is 2 + 2?", QUESTION]


def test_a_database_that_the_browser_cleared_is_filled_again(page, server):
    page.ask(QUESTION)
    page.command("Storage.clearDataForOrigin", origin=server.url, storageTypes="indexeddb")
    page.ask("What is 2 + 2?")
    # Writes finish in order. If the page was reloaded before the new database is open, they would be aborted.
    assert page.driver.execute_async_script("import('/page/storage/store.js').then((store) => store.write(store.listed()[0], [])).then(arguments[0])")
    shown = page.js(SHOWN)
    reload(page)
    assert page.js(SHOWN) == shown and page.text("#notice") == ""


def test_the_page_works_without_storage(server):
    with browser.chromium({"profile.default_content_setting_values.cookies": 2}) as blocked:
        blocked.go(server.url + "/")
        blocked.wait_for_end()
        assert "They last until the page is closed" in blocked.text("#notice")
        blocked.ask(QUESTION)
        blocked.settings(effort="low")
        blocked.ask("What is 2 + 2?")
        assert blocked.js("window.sent.at(-1)")["reasoning_effort"] == "low" and len(blocked.js("window.sent.at(-1)")["messages"]) == 3
        blocked.click("#new")
        blocked.click("nav .open")
        assert blocked.js(QUESTIONS) == [QUESTION, "What is 2 + 2?"]
        assert blocked.console_errors() == []


def test_the_page_works_if_the_database_never_opens(page):
    hanging = page.command("Page.addScriptToEvaluateOnNewDocument", source="IDBFactory.prototype.open = () => ({});")
    page.driver.refresh()
    page.type("#input", "typed early")
    page.click("#new")
    page.wait("document.getElementById('notice').innerText.includes('They last until the page is closed')")
    assert page.js("document.getElementById('input').value") == "typed early"
    page.fill("#input", "")
    page.ask(QUESTION)
    assert page.last(".answer") == "17 + 25 = 42."
    page.command("Page.removeScriptToEvaluateOnNewDocument", **hanging)


def test_an_answer_that_another_tab_receives_does_not_change_the_version_that_is_shown(page, tabs):
    first, second = tabs
    first()
    page.ask(QUESTION)
    page.js("window.more = {min_tokens: 30000, temperature: 1}")
    page.click(".retry")
    page.wait("document.querySelector('[aria-busy=true] .answer')?.innerText.length > 40")
    second()
    page.click("nav .open")
    page.click(".turn.assistant .versions button")
    page.js("(window.changes = 0, new BroadcastChannel('nibble')).onmessage = () => ++window.changes")
    page.wait("window.changes > 3")
    assert page.last(".answer") == "17 + 25 = 42."
    first()
    page.press(Keys.ESCAPE)
    page.wait("document.getElementById('stop').hidden")
