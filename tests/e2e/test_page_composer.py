"""Tests in headless Chromium of the composer: attached files, active settings, the context that is used; and of the server's
state in the header."""

import json
import re

import browser
import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, SCHEMA, any_page, chromium, page, server  # noqa: F401: fixtures
from test_page_storage import tabs  # noqa: F401: a fixture
from test_serve import TOOLS, serving

DROP = """((type, name, bytes) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name));
  document.getElementById("input").dispatchEvent(type === "drop"
    ? new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true})
    : new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
})(...arguments)"""
VALUE = "document.getElementById('input').value"


FILES = "[...document.querySelectorAll('.file button:first-child')].map((file) => file.textContent)"
# The effort and the other settings that are shown.
CHIPS = "[document.getElementById('effort-now').selectedOptions[0].textContent, ...[...document.querySelectorAll('#chips button')].map((chip) => chip.textContent)]"
SENT = "window.sent.at(-1).messages.at(-1).content"


def test_attached_files_outlive_a_reload_and_are_sent_as_fenced_text(page, tmp_path):
    file = tmp_path / "my notes.md"
    file.write_text("# A\n```\ncode\n```")
    page.type("#input", "Look:")
    page.find("#attach-file").send_keys(str(file))
    page.wait(f"{FILES}.length === 1")
    page.js(DROP, "drop", "b.txt", list(b"two\n"))
    page.wait(f"{FILES}.length === 2")
    for _ in range(2):
        assert page.js(FILES) == ["my notes.md", "b.txt"] and page.js(VALUE) == "Look:"
        page.driver.refresh()
        page.wait_for_end()
    page.ask("")
    assert page.js(SENT) == "Look:\n````my_notes.md\n# A\n```\ncode\n```\n````\n\n```b.txt\ntwo\n```\n"
    assert page.js(FILES) == [] and page.js(VALUE) == ""
    page.driver.refresh()
    page.wait_for_end()
    assert page.js(FILES) == [] and not page.find("#files").is_displayed()


def test_files_alone_are_a_message_and_belong_to_their_conversation(page):
    page.js(DROP, "drop", "a.txt", list(b"one\n"))
    page.wait(f"{FILES}.length === 1")
    assert page.text("nav .open") == "Draft: a.txt"
    page.click("#new")
    assert page.js(FILES) == []
    page.driver.refresh()
    page.wait_for_end()
    page.click("nav .open")
    assert page.js(FILES) == ["a.txt"]
    page.ask("")
    assert page.js(SENT) == "```a.txt\none\n```\n"


def test_a_file_can_be_removed_attached_again_and_become_text(page):
    page.js(DROP, "drop", "a.txt", list(b"one\n"))
    page.wait(f"{FILES}.length === 1")
    page.click(".file [aria-label='Remove a.txt']")
    assert page.js(FILES) == []
    assert page.driver.switch_to.active_element.text == "Attach a.txt again"
    page.press(Keys.ENTER)
    assert page.js(FILES) == ["a.txt"]
    page.type("#input", "See")
    page.click(".file button")
    assert page.js(FILES) == [] and page.js(VALUE) == "See\n```a.txt\none\n```\n"


def test_files_of_a_draft_are_exported_and_imported(page, server, tmp_path):
    page.js(DROP, "drop", "a.txt", list(b"one\n"))
    page.wait(f"{FILES}.length === 1")
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=True)
    page.exchange("#export-all")
    file = tmp_path / "nibble-conversations.json"
    browser.WebDriverWait(page.driver, 30).until(lambda _: file.exists() and file.stat().st_size)
    page.command("Page.navigate", url=server.url + "/status")
    page.forget(server.url)
    page.go(server.url + "/")
    page.wait_for_end()
    page.find("#import-file").send_keys(str(file))
    page.wait("document.querySelector('nav .open')?.textContent === 'Draft: a.txt'")
    page.click("nav .open")
    assert page.js(FILES) == ["a.txt"]


def test_files_that_a_tab_attaches_are_shown_in_the_other(page, tabs):
    first, second = tabs
    first()
    page.js(DROP, "drop", "a.txt", list(b"one\n"))
    page.wait(f"{FILES}.length === 1")
    second()
    page.wait("document.querySelector('nav .open')?.textContent === 'Draft: a.txt'")
    page.click("nav .open")
    assert page.js(FILES) == ["a.txt"]
    page.click(".file [aria-label='Remove a.txt']")
    first()
    page.wait(f"{FILES}.length === 0")


def test_files_are_kept_while_another_tab_deletes_their_conversation(page, tabs):
    first, second = tabs
    first()
    page.ask(QUESTION)
    page.js(DROP, "drop", "a.txt", list(b"one\n"))
    page.wait(f"{FILES}.length === 1")
    second()
    page.wait("document.querySelectorAll('nav .open').length === 1")
    page.click("nav .delete")
    first()
    page.wait("!document.querySelector('.turn')")
    page.wait(f"{FILES}.length === 1")


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_files_can_be_dropped_and_pasted(page, way):
    page.js(DROP, way, "a.txt", list(b"one\n"))
    page.wait(f"{FILES}.join() === 'a.txt'")
    assert page.js(VALUE) == ""


def test_a_file_that_is_no_text_changes_nothing(page):
    page.type("#input", "kept")
    for count, content in enumerate([[0xFF, 0xFE, 0x00], [0x61, 0x00, 0x62]]):
        page.js(DROP, "drop", "b.bin", content)
        page.wait("document.getElementById('notice').textContent === '\"b.bin\" was not attached: it is not a text file.'")
        assert page.js(VALUE) == "kept" and len(page.js(FILES)) == count
        page.js(DROP, "drop", "empty", list(b""))  # removes the notice
        page.wait(f"{FILES}.length === {count + 1}")
        assert page.text("#notice") == ""


def test_a_long_paste_becomes_a_file(page):
    paste = """((text) => {
      const data = new DataTransfer();
      data.setData("text/plain", text);
      return document.getElementById("input").dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
    })(...arguments)"""
    assert page.js(paste, "x" * 10_000) is True  # a paste that the browser handles
    assert page.js(paste, "x" * 10_001) is False
    assert page.js(FILES) == ["pasted.txt"] and page.js(VALUE) == ""
    page.js("(window.fetch = () => new Promise(() => {}), 0)")  # because the model would read for a minute
    page.type("#input", Keys.ENTER)
    assert page.js("document.querySelector('.turn.user .said').textContent") == "```pasted.txt\n" + "x" * 10_001 + "\n```\n"


def test_active_settings_are_always_visible(page):
    assert page.js(CHIPS) == ["Effort: medium", "Temperature: 0"]
    page.settings(effort="high", temperature="", instructions="Be brief.", schema=json.dumps(SCHEMA), tools=json.dumps(TOOLS))
    assert page.js(CHIPS) == ["Effort: high", "Instructions", "JSON schema", f"Functions: {len(TOOLS)}"]
    page.click("#chips [data-setting=schema]")
    assert page.driver.switch_to.active_element.get_attribute("id") == "schema"
    page.fill("#schema", "")
    page.click("#save-settings")
    assert "JSON schema" not in page.js(CHIPS)


def test_all_sampling_parameters_are_sent_and_the_defaults_of_the_server_shown(page):
    values = {"temperature": "0.5", "top_p": "0.9", "top_k": "40", "min_p": "0.01", "presence_penalty": "-0.5", "frequency_penalty": "0.25",
              "repetition_penalty": "1.1", "seed": "7", "max_tokens": "5"}  # fmt: skip
    page.settings(**values)
    page.ask(QUESTION)
    assert {name: page.js("window.sent.at(-1)")[name] for name in values} == {name: json.loads(text) for name, text in values.items()}
    assert page.js("window.sent.at(-1).seed") == 7 and "token limit was reached" in page.text("#turns")
    page.settings(**dict.fromkeys(values, ""))
    page.click(".retry")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    assert not set(values) & set(page.js("window.sent.at(-1)"))


def test_the_settings_show_what_the_server_does_by_default(chromium):
    with serving("--temperature", "0.7", "--top-p", "0.95") as running:
        chromium.go(running.url + "/")
        chromium.wait("document.getElementById('model').textContent === 'tiny on cpu'")
        chromium.click("#open-settings")
        hints = {name: chromium.text(f"#{name}-hint").split("default: ")[1] for name in ("temperature", "top_p", "top_k", "seed", "max_tokens")}
        assert hints == {"temperature": "0.7", "top_p": "0.95", "top_k": "0", "seed": "random", "max_tokens": "until the context is full"}


def test_a_number_that_the_server_would_refuse_is_not_saved(page):
    page.settings(top_p="1.5")
    assert page.find("#settings").is_displayed()
    page.fill("#top_p", "1")
    page.fill("#seed", "1.5")
    page.click("#save-settings")
    assert page.find("#settings").is_displayed()
    page.fill("#seed", "1")
    page.click("#save-settings")
    assert not page.find("#settings").is_displayed()
    page.js("localStorage.setItem('nibble.settings', JSON.stringify({top_p: '1.5', min_p: 'x', top_k: '2.5', temperature: '0'}))")
    page.driver.refresh()
    page.wait_for_end()
    assert page.js(CHIPS) == ["Effort: medium", "Temperature: 0"]


def test_each_conversation_keeps_its_settings(page):
    page.settings(effort="low", instructions="Be brief.")
    page.ask(QUESTION)
    page.click("#new")
    assert page.js(CHIPS) == ["Effort: low", "Temperature: 0", "Instructions"]  # the defaults are those saved last
    page.settings(effort="high", instructions="")
    page.ask("Sort 31, 5, 88.")
    assert page.js("window.sent.at(-1).reasoning_effort") == "high"
    page.driver.refresh()
    page.wait_for_end()
    page.js("[...document.querySelectorAll('nav .open')][1].click()")
    assert page.js(CHIPS) == ["Effort: low", "Temperature: 0", "Instructions"]
    page.ask("And 20 + 30?")
    body = page.js("window.sent.at(-1)")
    assert body["reasoning_effort"] == "low" and body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_the_composer_is_in_the_middle_until_the_first_question(page):
    place = "((box) => (box.top + box.bottom) / 2 / innerHeight)(document.getElementById('composer').getBoundingClientRect())"
    assert 0.3 < page.js(place) < 0.7
    page.ask(QUESTION)
    assert page.js(place) > 0.8
    page.click("#new")
    assert 0.3 < page.js(place) < 0.7


def test_the_context_that_is_used_is_shown(page):
    assert not page.find("#gauge").is_displayed()
    page.ask(QUESTION)
    usage = page.js("fetch('/status.json').then((reply) => reply.json()).then(({max_context}) => max_context)")
    shown = page.text("#gauge")
    assert re.fullmatch(rf"Context: \d+ of {usage:,} tokens,\s+\d %", shown)
    assert page.find("#gauge").get_attribute("title") == shown.split(" tokens,")[0] + " tokens"
    page.click("#new")
    assert not page.find("#gauge").is_displayed()


def test_the_header_shows_the_state_and_recovers(page):
    page.wait("document.getElementById('state').textContent === 'Ready'")
    page.js("(window.real = window.fetch, window.fetch = () => Promise.reject(new TypeError('gone')))")
    page.wait("document.getElementById('state').textContent === 'Offline'")
    page.js("(window.fetch = () => Promise.resolve(new Response('', {status: 503})))")
    page.wait("document.getElementById('state').textContent === 'Loading the model'")
    for body, shown in [({"status": "loading", "percent": 43}, "Loading the model, 43 %"), ({"status": "draining"}, "Shutting down")]:
        page.js("(window.body = JSON.stringify(arguments[0]), window.fetch = () => Promise.resolve(new Response(window.body, {status: 503})))", body)
        page.wait("document.getElementById('state').textContent === arguments[0]", shown)
    page.js("(window.fetch = window.real)")
    page.wait("document.getElementById('state').textContent === 'Ready'")


def test_the_header_says_that_a_server_which_never_replies_does_not_respond(page):
    page.wait("document.getElementById('state').textContent === 'Ready'")
    page.js("""(window.real = window.fetch, window.fetch = (address, options) => new Promise((resolve, reject) =>
      options.signal.addEventListener("abort", () => reject(options.signal.reason))), 0)""")
    page.wait("document.getElementById('state').textContent === 'Not responding'")
    page.js("(window.fetch = window.real, 0)")
    page.wait("document.getElementById('state').textContent === 'Ready'")


def test_a_page_that_was_hidden_shows_the_model_that_runs_now(page):
    page.wait("document.getElementById('model').textContent === 'tiny on cpu'")
    page.js(
        """(window.isHidden = true, window.waits = false, window.real = window.fetch,
        Object.defineProperty(document, "hidden", {get: () => window.isHidden, configurable: true}),
        window.listen = document.addEventListener, document.addEventListener = function (type, ...rest) {
          window.waits ||= type === "visibilitychange";
          return window.listen.call(document, type, ...rest);
        },
        window.fetch = (address, options) => String(address).endsWith("/status.json")
          ? Promise.resolve(Response.json({model: "other", state: "ready", setup: {backend: "cpu"}})) : window.real(address, options), 0)"""
    )
    page.wait("window.waits")
    page.js("(window.isHidden = false, document.dispatchEvent(new Event('visibilitychange')), 0)")
    page.wait("document.getElementById('model').textContent === 'other on cpu'")
    assert page.text("#state") == "Ready"
    page.js("(window.fetch = window.real, 0)")
