"""Tests in headless Chromium of the composer: attached files, active settings, the context that is used; and of the server's
state in the header."""

import json

import pytest

from test_page import QUESTION, SCHEMA, any_page, chromium, page, server  # noqa: F401: fixtures
from test_serve import TOOLS

DROP = """((type, name, bytes) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name));
  document.getElementById("input").dispatchEvent(type === "drop"
    ? new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true})
    : new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
})(...arguments)"""
VALUE = "document.getElementById('input').value"


def test_an_attached_file_is_part_of_the_draft(page, tmp_path):
    file = tmp_path / "my notes.md"
    file.write_text("# A\n```\ncode\n```")
    page.type("#input", "Look:")
    page.find("#attach-file").send_keys(str(file))
    page.wait(f"{VALUE}.length > 10")
    assert page.js(VALUE) == "Look:\n````my_notes.md\n# A\n```\ncode\n```\n````\n"
    page.driver.refresh()
    page.wait_for_end()
    assert page.js(VALUE) == "Look:\n````my_notes.md\n# A\n```\ncode\n```\n````\n"


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_files_can_be_dropped_and_pasted(page, way):
    page.js(DROP, way, "a.txt", list(b"one\n"))
    page.wait(f"{VALUE} === '```a.txt\\none\\n```\\n'")


def test_a_file_that_is_no_text_changes_nothing(page):
    page.type("#input", "kept")
    for content in ([0xFF, 0xFE, 0x00], [0x61, 0x00, 0x62]):
        page.js(DROP, "drop", "b.bin", content)
        page.wait("document.getElementById('notice').textContent === '\"b.bin\" was not attached: it is not a text file.'")
        page.js("document.getElementById('notice').textContent = ''")
        assert page.js(VALUE) == "kept"
        page.js(DROP, "drop", "", list(b""))  # ends the notice
        page.wait(f"{VALUE}.length > 4")
        page.fill("#input", "kept")


def test_a_long_paste_becomes_a_file(page):
    paste = """((text) => {
      const data = new DataTransfer();
      data.setData("text/plain", text);
      return document.getElementById("input").dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
    })(...arguments)"""
    assert page.js(paste, "x" * 10_000) is True  # left to the browser
    assert page.js(paste, "x" * 10_001) is False
    assert page.js(VALUE) == "```pasted.txt\n" + "x" * 10_001 + "\n```\n"


def test_active_settings_are_always_visible(page):
    chips = "[...document.querySelectorAll('#chips button')].map((chip) => chip.textContent)"
    assert page.js(chips) == ["Effort: medium", "Temperature: 0"]
    page.settings(effort="high", temperature="", instructions="Be brief.", schema=json.dumps(SCHEMA), tools=json.dumps(TOOLS))
    assert page.js(chips) == ["Effort: high", "Instructions", "JSON schema", f"Functions: {len(TOOLS)}"]
    page.click("#chips [data-setting=schema]")
    assert page.driver.switch_to.active_element.get_attribute("id") == "schema"
    page.fill("#schema", "")
    page.click("#save-settings")
    assert "JSON schema" not in page.js(chips)


def test_each_conversation_keeps_its_settings(page):
    chips = "[...document.querySelectorAll('#chips button')].map((chip) => chip.textContent)"
    page.settings(effort="low", instructions="Be brief.")
    page.ask(QUESTION)
    page.click("#new")
    assert page.js(chips) == ["Effort: low", "Temperature: 0", "Instructions"]  # the defaults are those saved last
    page.settings(effort="high", instructions="")
    page.ask("Sort 31, 5, 88.")
    assert page.js("window.sent.at(-1).reasoning_effort") == "high"
    page.driver.refresh()
    page.wait_for_end()
    page.js("[...document.querySelectorAll('nav .open')][1].click()")
    assert page.js(chips) == ["Effort: low", "Temperature: 0", "Instructions"]
    page.ask("And 20 + 30?")
    body = page.js("window.sent.at(-1)")
    assert body["reasoning_effort"] == "low" and body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_the_context_that_is_used_is_shown(page):
    assert not page.find("#gauge").is_displayed()
    page.ask(QUESTION)
    usage = page.js("fetch('/status.json').then((reply) => reply.json()).then(({max_context}) => max_context)")
    shown = page.text("#gauge")
    assert shown.startswith("Context: ") and f" of {usage:,} tokens, " in shown
    page.click("#new")
    assert not page.find("#gauge").is_displayed()


def test_the_header_shows_the_state_and_recovers(page):
    page.wait("document.getElementById('state').textContent === 'Ready'")
    page.js("(window.real = window.fetch, window.fetch = () => Promise.reject(new TypeError('gone')))")
    page.wait("document.getElementById('state').textContent === 'Offline'")
    page.js("(window.fetch = () => Promise.resolve(new Response('', {status: 503})))")
    page.wait("document.getElementById('state').textContent === 'Loading the model'")
    page.js("(window.fetch = window.real)")
    page.wait("document.getElementById('state').textContent === 'Ready'")
