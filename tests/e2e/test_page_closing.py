"""Tests in headless Chromium that what the page has shown survives its end while the database is busy: the writes of a page
that closes are dropped if they wait for another transaction."""

import json

import browser
import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, begin_endless_answer, chromium, page, server, visit_anew  # noqa: F401: fixtures
from test_page_resume import ANSWER, RUNNING, begin_answer, wait_until_over
from test_page_storage import QUESTIONS, database, reload, tabs  # noqa: F401: a fixture
from test_serve import TOOLS, serving

# Keeps a transaction open until the page ends: no later one begins.
HOLD = """(() => {
  const request = indexedDB.open("nibble");
  request.onsuccess = () => {
    const transaction = request.result.transaction([...request.result.objectStoreNames], "readwrite");
    const goOn = () => {
      window.isHeld = true;
      transaction.objectStore("messages").get(["no", "such"]).onsuccess = goOn;
    };
    goOn();
  };
})()"""
ITEMS = "Object.keys(localStorage).filter((key) => key.startsWith('nibble.unsaved.'))"
TITLES = "[...document.querySelectorAll('nav .open')].map((item) => item.firstChild.textContent)"
INPUT = "document.getElementById('input').value"
NO_ANSWERS = "(window.fetch = () => new Promise(() => {}), 0)"


def hold(page):
    page.js(HOLD)
    page.wait("window.isHeld")


def leave_and_return(page, server):
    """Opens another page in the tab, and the chat again."""
    page.driver.get(server.url + "/status")
    page.driver.get(server.url + "/")
    page.wait_for_end()


def ask_without_answer(page, text=QUESTION):
    page.js(NO_ANSWERS)
    number = len(page.js(QUESTIONS))
    page.fill("#input", text)
    page.click("#send")
    page.wait(f"{QUESTIONS}.length > arguments[0]", number)


# what is saved


def test_the_text_of_an_answer_that_the_server_does_not_keep_is_saved(chromium):
    with serving("--resume-time", 1) as server:
        visit_anew(chromium, server.url)
        hold(chromium)
        begin_answer(chromium, length=30000)
        shown = chromium.last(".answer")
        chromium.driver.get(server.url + "/status")
        chromium.wait(RUNNING + ".then((number) => number === 0)")  # the server has stopped it
        chromium.driver.get(server.url + "/")
        wait_until_over(chromium)
        assert "The rest of this answer is lost" in chromium.last(".error") and chromium.last(".answer").startswith(shown)
        assert chromium.js(QUESTIONS) == ["Tell me a story about a fox."] and chromium.js(ITEMS) == []
        reload(chromium)
        assert chromium.last(".answer").startswith(shown)
        chromium.driver.get("about:blank")  # or it would ask the server that has ended for the icon


def test_the_text_of_an_answer_that_can_not_go_on_is_saved_as_not_complete(chromium):
    with serving("--resume-time", 0) as server:
        visit_anew(chromium, server.url)
        hold(chromium)
        begin_endless_answer(chromium)
        shown = chromium.last(".answer")
        leave_and_return(chromium, server)
        assert chromium.last(".answer").startswith(shown) and chromium.last(".end") == "Not complete."
        assert not chromium.find(".turn.assistant .error").is_displayed()
        chromium.driver.get("about:blank")


def test_a_question_is_saved_and_its_draft_does_not_come_back(page, server):
    page.type("#input", QUESTION)
    page.driver.execute_async_script("import('/page/storage/store.js').then((store) => store.saveShown(store.newConversation())).then(arguments[0])")
    hold(page)
    page.js(NO_ANSWERS)
    page.type("#input", Keys.ENTER)
    page.wait("document.querySelectorAll('.turn').length === 2")
    leave_and_return(page, server)
    assert page.js(QUESTIONS) == [QUESTION] and page.last(".end") == "No answer yet." and page.js(INPUT) == ""
    reload(page)
    assert page.js(QUESTIONS) == [QUESTION] and page.js(INPUT) == "" and page.js(ITEMS) == []


def test_a_result_of_a_tool_is_saved(page, server):
    page.settings(tools=json.dumps(TOOLS))
    page.ask("What is the weather in Oslo?")
    hold(page)
    page.js(NO_ANSWERS)
    page.type(".results textarea", "7 degrees")
    page.js("document.querySelector('.results').requestSubmit()")
    page.wait("document.querySelector('.turn.tool')")
    leave_and_return(page, server)
    assert page.text(".turn.tool .said") == "7 degrees"
    reload(page)
    assert page.text(".turn.tool .said") == "7 degrees" and page.js(ITEMS) == []


def test_an_edited_answer_is_saved(page, server):
    page.ask(QUESTION)
    hold(page)
    page.click(".turn.assistant .edit")
    page.fill(".turn.assistant textarea", "It is forty-two.")
    page.click(".turn.assistant button[type=submit]")
    page.wait("document.querySelector('.turn.assistant .answer')?.innerText === 'It is forty-two.'")
    leave_and_return(page, server)
    for _ in range(2):
        assert page.last(".answer") == "It is forty-two." and page.last(".versions .off-screen") == "Version 2 of 2"
        reload(page)


def test_a_draft_and_its_files_are_saved(page, server):
    hold(page)
    page.js("""document.getElementById("input").dispatchEvent(Object.assign(new Event("paste", {cancelable: true}),
      {clipboardData: {files: [], getData: () => "long ".repeat(3000)}}))""")
    page.type("#input", "a draft")
    page.wait("document.querySelector('#files:not([hidden])')")
    leave_and_return(page, server)
    for _ in range(2):
        assert page.js(INPUT) == "a draft" and "pasted.txt" in page.text("#files")
        reload(page)
    assert page.js(ITEMS) == []


def test_a_title_is_saved(page, server):
    page.ask(QUESTION)
    hold(page)
    page.js("document.querySelector('nav .rename').click()")
    page.fill("nav li input", "Sums")
    page.type("nav li input", Keys.ENTER)
    page.wait(f"{TITLES}[0] === 'Sums'")
    leave_and_return(page, server)
    for _ in range(2):
        assert page.js(TITLES) == ["Sums"]
        reload(page)


def test_a_conversation_that_was_deleted_last_stays_deleted(page, server):
    page.ask(QUESTION)
    hold(page)
    page.js("document.querySelector('nav .delete').click()")
    page.wait(f"{TITLES}.length === 0")
    leave_and_return(page, server)
    for _ in range(2):
        assert page.js(TITLES) == [] and page.js(ITEMS) == []
        reload(page)
    assert database(page, "return result(store('messages').getAll())") == []


def test_a_deletion_that_was_undone_last_stays_undone(page, server):
    page.ask(QUESTION)
    page.type("#input", "a draft")
    hold(page)
    page.js("document.querySelector('nav .delete').click()")
    page.wait(f"{TITLES}.length === 0")
    page.click("#undo-delete")
    page.wait(f"{TITLES}.length === 1")
    leave_and_return(page, server)
    for _ in range(2):
        page.click("nav .open")
        assert page.js(QUESTIONS) == [QUESTION] and page.last(".answer") == "17 + 25 = 42." and page.js(INPUT) == "a draft"
        reload(page)


def test_a_page_that_comes_back_from_the_cache_of_the_browser_shows_all(page, server):
    page.ask(QUESTION)
    hold(page)
    page.type("#input", "a draft")
    page.driver.get(server.url + "/status")
    page.driver.back()
    page.wait("document.getElementById('log')?.hasAttribute('aria-busy') === false")
    assert page.js(QUESTIONS) == [QUESTION] and page.js(INPUT) == "a draft"
    page.wait(f"{ITEMS}.length === 0")


def test_another_open_tab_shows_and_stores_what_a_closed_one_left(page, tabs):
    first, second = tabs
    second()
    page.js("(BroadcastChannel.prototype.postMessage = () => {}, 0)")  # the first tab learns nothing before
    hold(page)
    ask_without_answer(page, "a question of the second tab")
    page.command("Page.close")
    first()
    page.wait(f"{TITLES}.includes('a question of the second tab')")
    page.wait(f"{ITEMS}.length === 0")
    page.type("#input", "typed here")
    reload(page)
    assert page.js(INPUT) == "typed here"
    page.js("[...document.querySelectorAll('nav .open')].find((item) => item.textContent.startsWith('a question')).click()")
    assert page.js(QUESTIONS) == ["a question of the second tab"]


# what an item never changes


def put_item(page, name, *writes):
    page.js("localStorage.setItem('nibble.unsaved.' + arguments[0], JSON.stringify({saved: 1, writes: arguments[1]}))", name, list(writes))


def stored(page):
    return database(page, "return result(store('messages').getAll())")


def without_unset(messages):
    return [{name: value for name, value in message.items() if value is not None} for message in messages]


def test_an_old_item_changes_no_complete_message_and_no_longer_text(page):
    page.ask(QUESTION)
    begin_endless_answer(page)
    page.press(Keys.ESCAPE)
    page.wait_for_end()
    database(page, "const record = (await result(store('messages').getAll())).find(({finish}) => finish === 'stopped'); store('messages').put({...record, complete: false})")
    before = stored(page)
    [cut] = [message for message in before if not message["complete"]]
    changed = [{**message, "content": "a changed text that is longer than it was", "complete": False} for message in before if message != cut]
    put_item(page, "a", {"chat": {"id": cut["chat"]}, "messages": [*changed, {**cut, "content": cut["content"][:10], "complete": True, "error": "shorter"}]})
    reload(page)
    assert without_unset(stored(page)) == without_unset(before) and page.js(ITEMS) == [] and page.text("#notice") == ""
    put_item(page, "b", {"chat": {"id": cut["chat"]}, "messages": [{**cut, "content": cut["content"] + " and more"}]})
    reload(page)
    assert page.last(".answer").endswith("and more") and cut["content"] + " and more" in [message["content"] for message in stored(page)]


def test_an_item_does_not_bring_back_a_deleted_conversation(page):
    page.ask(QUESTION)
    messages = stored(page)
    page.js("document.querySelector('nav .delete').click()")
    page.wait(f"{TITLES}.length === 0")
    reload(page)
    put_item(page, "a", {"chat": {"id": messages[0]["chat"]}, "messages": messages, "drafts": [{"id": messages[0]["chat"], "text": "a draft", "changed": 1}]})
    reload(page)
    assert page.js(TITLES) == [] and stored(page) == [] and page.js(ITEMS) == [] and page.text("#notice") == ""


def test_a_younger_draft_is_kept(page):
    page.type("#input", "a draft")
    page.wait("document.querySelector('nav .open')")
    reload(page)
    chat = database(page, "return (await result(store('drafts').getAll()))[0].id")
    put_item(page, "a", {"chat": {"id": chat}, "drafts": [{"id": chat, "text": "an older one", "changed": 1}]})
    reload(page)
    assert page.js(INPUT) == "a draft" and page.js(ITEMS) == []


# faults


def message_of(chat, text, **fields):
    return {"id": f"{chat}.0", "chat": chat, "parent": None, "created": 1, "role": "user", "content": text, **fields}


def test_damaged_items_are_set_aside_and_reported_and_the_rest_is_saved(page):
    page.js("(localStorage.setItem('nibble.unsaved.a', '{\"saved\": 1, \"wri'), localStorage.setItem('nibble.unsaved.b', 'null'), 0)")
    put_item(page, "c", {"chat": {"id": "x"}, "messages": [message_of("x", 7)]}, {"chat": {"id": "y"}, "messages": [message_of("y", "a good one")]}, {"chat": 7})
    reload(page)
    assert "4 damaged records" in page.text("#notice") and page.js(TITLES) == ["a good one"] and page.js(ITEMS) == []
    kept = database(page, "return result(store('damaged').getAll())")
    assert sorted(item["record"]["key"] for item in kept) == ["nibble.unsaved.a", "nibble.unsaved.b", "nibble.unsaved.c"]
    reload(page)
    assert page.text("#notice") == "" and page.js(TITLES) == ["a good one"]


def test_what_fits_is_saved_if_local_storage_is_nearly_full(page, server):
    hold(page)
    ask_without_answer(page, "a long question: " + "x" * 200_000)
    page.click("#new")
    ask_without_answer(page, "a short question")
    page.js("""(() => {
      for (let length = 1 << 22; length >= 16384; length >>= 1)
        for (let at = 0; ; ++at) try { localStorage.setItem(`filler ${length} ${at}`, "x".repeat(length)); } catch { break; }
    })()""")
    leave_and_return(page, server)
    assert page.js(TITLES) == ["a short question"]
    page.js("localStorage.clear()")


def test_without_a_database_the_conversations_stay_in_local_storage_until_it_works(page, server):
    blocked = page.command("Page.addScriptToEvaluateOnNewDocument", source="indexedDB.open = () => { throw new Error('blocked'); };")
    reload(page)
    ask_without_answer(page)
    for _ in range(2):  # a reload with the database blocked
        leave_anyway(page, server)
        page.js("document.querySelector('nav .open').click()")
        assert page.js(QUESTIONS) == [QUESTION] and len(page.js(ITEMS)) == 1
    page.command("Page.removeScriptToEvaluateOnNewDocument", **blocked)
    leave_anyway(page, server)
    assert page.js(QUESTIONS) == [QUESTION] and page.js(ITEMS) == [] and page.text("#notice") == ""
    reload(page)
    assert page.js(QUESTIONS) == [QUESTION]
    assert all("beforeunload" in error for error in page.console_errors())


def leave_anyway(page, server):
    """Reloads the page although the browser may ask whether to leave it."""
    page.command("Page.navigate", url="about:blank")
    page.wait("location.href === 'about:blank'")
    page.driver.get(server.url + "/")
    page.wait_for_end()
