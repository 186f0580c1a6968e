"""Tests in headless Chromium of the page's drafts, and of its exports and imports."""

import json

import browser
import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, chromium, page, server  # noqa: F401: fixtures
from test_page_storage import QUESTIONS, OLD, database, reload
from test_page_versions import step

DRAFT = "document.getElementById('input').value"
TITLES = "[...document.querySelectorAll('nav .open')].map((item) => item.textContent)"


def open_titled(page, title):
    page.js("[...document.querySelectorAll('nav .open')].find((item) => item.textContent === arguments[0]).click()", title)


# drafts


def test_drafts_belong_to_their_conversations_and_outlive_a_reload(page):
    page.ask(QUESTION)
    page.type("#input", "half a")
    page.click("#new")
    assert page.js(DRAFT) == ""
    page.type("#input", "something new")
    assert page.js(TITLES) == ["Draft: something new", QUESTION]
    reload(page)
    assert page.js(DRAFT) == "something new" and not page.js(QUESTIONS)
    open_titled(page, QUESTION)
    assert page.js(DRAFT) == "half a"
    reload(page)
    assert page.js(DRAFT) == "half a"
    page.ask(" question")
    assert page.js(QUESTIONS) == [QUESTION, "half a question"] and page.js(DRAFT) == ""
    reload(page)
    assert page.js(DRAFT) == ""
    open_titled(page, "Draft: something new")
    assert page.js(DRAFT) == "something new"


def test_a_draft_of_a_new_tab_is_listed_after_the_tab_has_died(page, server):
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    page.driver.get(server.url + "/")
    page.wait_for_end()
    page.type("#input", "never sent")
    page.driver.close()
    page.driver.switch_to.window(first)
    page.wait("document.querySelector('nav .open')?.textContent === 'Draft: never sent'")
    reload(page)
    page.click("nav .open")
    assert page.js(DRAFT) == "never sent"


@pytest.fixture
def slow(page):
    """Reloads the page, whose database opens when window.go() is called."""
    script = page.command(
        "Page.addScriptToEvaluateOnNewDocument",
        source="""
        const open = IDBFactory.prototype.open;
        IDBFactory.prototype.open = function (...all) {
          return Object.defineProperty(open.apply(this, all), "onsuccess", { set(call) { window.go = () => call(); } });
        };
        """,
    )
    page.driver.refresh()
    page.command("Page.removeScriptToEvaluateOnNewDocument", **script)
    page.wait("Boolean(window.go)")


def test_text_that_is_typed_before_the_conversations_are_loaded_stays(page, slow):
    page.type("#input", "early" + Keys.ENTER)
    assert page.js("document.querySelectorAll('.turn').length") == 0
    page.js("setTimeout(window.go, 500)")
    page.wait_for_end()
    assert page.js(DRAFT) == "early"
    reload(page)
    assert page.js(DRAFT) == "early"


# files


def export_all(page, folder):
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder), eventsEnabled=True)
    file = folder / "nibble-conversations.json"
    file.unlink(missing_ok=True)
    page.exchange("#export-all")
    browser.WebDriverWait(page.driver, 30).until(lambda _: file.exists() and file.stat().st_size)
    return file


def import_file(page, file):
    page.js("(document.getElementById('outcome').textContent = '', document.getElementById('import-file').hidden = false)")
    page.find("#import-file").send_keys(str(file))
    page.js("(document.getElementById('import-file').hidden = true)")
    page.wait("document.getElementById('outcome').textContent || document.getElementById('notice').textContent")


def test_all_conversations_are_exported_and_imported_with_branches_and_drafts(page, server, tmp_path):
    page.ask("What is 1 + 1?")
    page.click(".retry")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    step(page, -1)
    page.click("#new")
    page.ask(QUESTION)
    page.type("#input", "half a question")
    database(page, "store('damaged').add({store: 'messages', record: {content: 'lost?'}, reason: 'a test'});")
    file = export_all(page, tmp_path)
    told = json.loads(file.read_text())
    assert (told["format"], told["version"], len(told["conversations"])) == ("nibble.conversations", 1, 2)
    assert [record["record"]["content"] for record in told["damaged"]] == ["lost?"]

    page.go(server.url + "/status")
    page.forget(server.url)
    page.go(server.url + "/")
    page.wait_for_end()
    assert page.js(TITLES) == []
    import_file(page, file)
    assert page.text("#outcome") == "Imported messages: 5."
    import_file(page, file)
    assert page.text("#outcome") == "Imported messages: 0; already here: 5."
    reload(page)
    assert sorted(page.js(TITLES)) == ["What is 1 + 1?", QUESTION]
    open_titled(page, "What is 1 + 1?")
    assert page.js("document.querySelector('.turn.assistant .versions .off-screen').textContent") == "Version 1 of 2"
    open_titled(page, QUESTION)
    assert page.last(".answer") != "" and page.js(DRAFT) == "half a question"
    again = json.loads(export_all(page, tmp_path).read_text())
    by_id = lambda file: sorted(file["conversations"], key=lambda chat: chat["id"])
    assert by_id(again) == by_id(told)


def test_an_import_changes_no_message_and_brings_back_deleted_conversations(page, tmp_path):
    page.ask(QUESTION)
    file = export_all(page, tmp_path)
    told = json.loads(file.read_text())
    told["conversations"][0]["messages"][1]["content"] = "another answer"
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(told))
    for outcome in ("Imported messages: 1; already here: 1.", "Imported messages: 0; already here: 2."):
        import_file(page, changed)
        assert page.text("#outcome") == outcome
    assert page.last(".answer") == "17 + 25 = 42."
    page.click(".turn.assistant .versions button:enabled")
    assert page.last(".answer") == "another answer"
    page.click("nav .delete")
    import_file(page, file)
    reload(page)
    page.click("nav .open")
    assert page.last(".answer") == "17 + 25 = 42."


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"format": "nibble.conversations", "version": 2, "conversations": []}'])
def test_a_file_that_is_no_export_is_refused(page, tmp_path, text):
    file = tmp_path / "other.json"
    file.write_text(text)
    import_file(page, file)
    assert '"other.json" was not imported' in page.text("#notice") and page.js(TITLES) == []


def test_an_import_leaves_out_damaged_messages_and_survives_hostile_ones(page, tmp_path):
    def message(id, parent, content="x", **more):
        return {"id": id, "parent": parent, "created": 1, "role": "user", "content": content, **more}

    hostile = [
        message("a", None, "<img src=x onerror=alert(1)>"),
        message("b", "c"),  # a and b are a cycle
        message("c", "b"),
        message("d", "missing"),
        message("e", "a", role="assistant", usage={"completion_tokens": "many"}, calls=[None], firstMs="x"),  # shown as an answer without calls
        message("f", "a", 7),
        message("g", "g"),
        message("h", "a", role="system"),
        message("constructor", "a", "named like a member"),
        None,
    ]
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps({"format": "nibble.conversations", "version": 1, "conversations": [{"id": "__proto__", "messages": hostile}, {"id": 7}, None]}))
    import_file(page, file)
    assert page.text("#outcome") == "Imported messages: 6; damaged and left out: 4."
    reload(page)
    page.click("nav .open")
    for _ in range(4):
        step(page, 1, turn=0)
    assert len(page.js(QUESTIONS)) >= 1
    page.ask(QUESTION)
    assert page.last(".answer") != ""


def test_the_export_of_an_earlier_version_is_imported(page, tmp_path):
    file = tmp_path / "old.json"
    file.write_text(json.dumps(OLD))
    import_file(page, file)
    page.click("nav .open")
    assert page.js(QUESTIONS) == ["an old question", "another one"]


def test_markdown_has_the_branch_that_is_shown(page, tmp_path):
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=True)
    page.ask("What is 1 + 1?")
    answer = page.js("(await_ => document.querySelector('.answer').innerText)()")
    page.click(".turn .edit")
    page.fill(".turn textarea", QUESTION)
    page.click(".turn button[type=submit]")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    page.exchange("#export-markdown")
    file = tmp_path / "What-is-1-1.md"
    browser.WebDriverWait(page.driver, 30).until(lambda _: file.exists() and file.stat().st_size)
    text = file.read_text()
    assert f"## You\n\n{QUESTION}\n\n## Answer\n\n17 + 25 = 42.\n" in text and answer not in text.split("\n")[2:]


def test_a_call_with_a_fence_in_its_arguments_stays_one_block_in_markdown(page, tmp_path):
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=True)
    arguments = json.dumps({"code": "```\nx"}).replace("\\n", "\n")
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": arguments}}
    question = {"id": "a.0", "parent": None, "created": 1, "role": "user", "content": "Run it"}
    answer = {"id": "a.1", "parent": "a.0", "created": 2, "role": "assistant", "content": "", "calls": [call]}
    file = tmp_path / "file.json"
    file.write_text(json.dumps({"format": "nibble.conversations", "version": 1, "conversations": [{"id": "a", "messages": [question, answer]}]}))
    import_file(page, file)
    page.click("nav .open")
    page.exchange("#export-markdown")
    text = tmp_path / "Run-it.md"
    browser.WebDriverWait(page.driver, 30).until(lambda _: text.exists() and text.stat().st_size)
    assert text.read_text().endswith(f"## Answer\n\n````\nrun({arguments})\n````\n")
