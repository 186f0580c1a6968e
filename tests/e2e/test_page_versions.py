"""Tests in headless Chromium that Retry and edits add versions of answers and messages, and delete none."""

import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, begin_endless_answer, chromium, page, server, violations  # noqa: F401: fixtures
from test_page_storage import QUESTIONS, reload
from test_serve import serving

ANSWERS = "[...document.querySelectorAll('.answer')].map((answer) => answer.innerText)"


def retry_endlessly(page):
    """Begins another version of the last answer, which does not end."""
    page.js("window.more = {min_tokens: 30000, temperature: 1}")
    page.js("[...document.querySelectorAll('.retry')].at(-1).click()")
    page.wait("document.querySelector('[aria-busy=true] .answer')?.innerText.length > 40")
    page.js("window.more = {}")


def versions(page, turn=-1):
    """Returns the turn's version and number of versions as shown, "2/3"; empty if it has one version."""
    return page.js("[...document.querySelectorAll('.turn')].at(arguments[0]).querySelector('.versions:not([hidden]) [aria-hidden]')?.textContent ?? ''", turn)


def step(page, by, turn=-1):
    page.js("[...document.querySelectorAll('.turn')].at(arguments[0]).querySelectorAll('.versions button')[arguments[1]].click()", turn, 0 if by < 0 else 1)


def test_retry_keeps_the_old_answer_as_a_version(page):
    page.ask(QUESTION)
    assert not page.find(".turn.assistant .versions").is_displayed()
    retry_endlessly(page)
    assert versions(page) == "2/2"
    step(page, -1)
    assert page.last(".answer") == "17 + 25 = 42." and versions(page) == "1/2"
    page.press(Keys.ESCAPE)
    page.wait("document.getElementById('stop').hidden")
    assert page.last(".answer") == "17 + 25 = 42."
    step(page, 1)
    stopped = page.last(".answer")
    assert len(stopped) > 40 and page.last(".end") == "Stopped."
    reload(page)
    assert page.last(".answer") == stopped and versions(page) == "2/2"
    page.ask("What is 2 + 2?")
    assert [message["role"] for message in page.js("window.sent.at(-1).messages")] == ["user", "assistant", "user"]
    assert page.js("window.sent.at(-1).messages")[1]["content"] != "17 + 25 = 42."
    step(page, -1, turn=1)
    assert page.js(QUESTIONS) == [QUESTION] and page.last(".answer") == "17 + 25 = 42."
    step(page, 1)
    assert page.js(QUESTIONS) == [QUESTION, "What is 2 + 2?"]


def test_a_retry_goes_on_after_a_reload_and_keeps_the_old_answer(page):
    page.ask(QUESTION)
    retry_endlessly(page)
    begun = page.last(".answer")[:20]
    page.driver.refresh()
    page.wait("document.querySelector('[aria-busy=true] .answer')?.innerText.length > 40")
    assert page.last(".answer").startswith(begun) and versions(page) == "2/2"
    page.click("#stop")
    page.wait_for_end()
    assert page.last(".end") == "Stopped."
    step(page, -1)
    assert page.last(".answer") == "17 + 25 = 42." and versions(page) == "1/2"


def test_a_retry_of_which_nothing_came_leaves_no_version(page):
    page.ask(QUESTION)
    page.js("(window.fetch = () => new Promise(() => {}), 0)")
    page.click(".retry")
    page.wait("document.querySelector('[aria-busy=true]')")
    reload(page)
    assert page.last(".answer") == "17 + 25 = 42." and versions(page) == ""


def test_a_retry_with_the_server_down_leaves_the_old_answer(chromium):
    with serving() as dying:
        chromium.go(dying.url + "/")
        chromium.wait_for_end()
        chromium.settings(temperature="0")
        chromium.ask(QUESTION)
        chromium.ask("What is 2 + 2?")
        shown = chromium.js(ANSWERS)
        dying.process.kill()
        dying.process.wait()
        for button in (".turn:nth-child(2) .retry", ".turn:nth-child(4) .retry"):  # also that of an earlier answer
            chromium.click(button)
            chromium.wait("document.body.innerText.includes(\"Retry failed. The server can't be reached\")")
            chromium.wait_for_end()
            assert chromium.js(ANSWERS) == shown and len(chromium.js(QUESTIONS)) == 2
            assert chromium.js("[...document.querySelectorAll('.versions')].every((versions) => versions.hidden)")


def test_a_server_that_dies_during_a_retry_leaves_the_old_answer_and_the_new_part(chromium):
    with serving() as dying:
        chromium.go(dying.url + "/")
        chromium.wait_for_end()
        chromium.settings(temperature="0")
        chromium.ask(QUESTION)
        old = chromium.last(".answer")
        retry_endlessly(chromium)
        dying.process.kill()
        chromium.wait_for_end()
        assert chromium.last(".answer") == old and "Retry failed. The connection ended" in chromium.last(".error")
        assert versions(chromium) == "1/2"
        step(chromium, 1)
        assert len(chromium.last(".answer")) > 40 and "connection ended" in chromium.last(".error")


def test_an_edit_begins_a_branch_and_keeps_the_old_one(page):
    page.ask("What is 1 + 1?")
    page.ask("What is 2 + 2?")
    before = page.text("#turns")
    page.click(".turn .edit")
    assert "The old one is kept" in page.text(".turn form")
    page.fill(".turn textarea", QUESTION)
    page.click(".turn button[type=submit]")
    page.wait("document.querySelectorAll('.turn').length === 2")
    page.wait_for_end()
    assert page.js(QUESTIONS) == [QUESTION] and versions(page, 0) == "2/2"
    reload(page)
    assert page.js(QUESTIONS) == [QUESTION]
    step(page, -1, turn=0)
    assert page.js(QUESTIONS) == ["What is 1 + 1?", "What is 2 + 2?"]
    assert [line for line in page.text("#turns").split("\n") if line not in "‹›1/2" and "Version" not in line] == before.split("\n")
    reload(page)
    assert page.js(QUESTIONS) == ["What is 1 + 1?", "What is 2 + 2?"]


def test_an_edit_in_one_tab_outlives_what_another_one_does(page, server):
    page.ask(QUESTION)
    driver, first = page.driver, page.driver.current_window_handle
    page.click(".turn .edit")
    page.fill(".turn textarea", "half a question")
    driver.switch_to.new_window("tab")
    driver.get(server.url + "/")
    page.wait_for_end()
    page.click("nav .open")
    page.ask("What is 2 + 2?")
    driver.close()
    driver.switch_to.window(first)
    page.wait("document.querySelectorAll('.turn').length === 4")
    page.wait_for_end()
    assert page.js("document.querySelector('.turn textarea').value") == "half a question"


def test_versions_have_names_for_screen_readers_and_keep_the_focus(page):
    page.ask(QUESTION)
    retry_endlessly(page)
    page.press(Keys.ESCAPE)
    page.wait_for_end()
    group = page.find(".turn.assistant .versions")
    assert group.get_attribute("role") == "group" and group.accessible_name == "Versions of this answer"
    previous, following = group.find_elements("css selector", "button")
    assert (previous.text, previous.accessible_name) == ("‹", "Previous version of this answer")
    assert (following.text, following.accessible_name) == ("›", "Next version of this answer")
    assert previous.is_enabled() and not following.is_enabled()
    assert page.js("document.querySelector('.turn.assistant .versions .off-screen').textContent") == "Version 2 of 2"
    previous.send_keys(Keys.ENTER)
    assert page.driver.switch_to.active_element.accessible_name == "Next version of this answer"  # the previous one is disabled
    page.press(Keys.ENTER)
    assert page.driver.switch_to.active_element.accessible_name == "Previous version of this answer"
    for scheme in ("light", "dark"):
        assert violations(page, scheme, 320) == []


@pytest.mark.parametrize("width", [320, 1000])
def test_the_page_does_not_scroll_sideways(page, width):
    page.command("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
    page.ask(QUESTION)
    page.click(".retry")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    assert page.js("document.documentElement.scrollWidth") <= width
    if width < 500:
        page.click("#toggle-list")
        assert page.js("document.documentElement.scrollWidth") <= width
    page.command("Emulation.clearDeviceMetricsOverride")


def test_an_edit_that_was_not_sent_outlives_another_conversation_and_a_reload(page):
    page.ask(QUESTION)
    page.click(".turn .edit")
    page.fill(".turn.user textarea", "What is 18 + 25?")
    page.click("#new")
    page.click("nav .open")
    assert page.js("document.querySelector('.turn.user textarea').value") == "What is 18 + 25?"
    reload(page)
    assert page.js("document.querySelector('.turn.user textarea').value") == "What is 18 + 25?"
    page.js("[...document.querySelectorAll('.turn.user button')].find((button) => button.textContent === 'Cancel').click()")
    reload(page)
    assert page.js("document.querySelector('.turn.user textarea')") is None and page.js(QUESTIONS) == [QUESTION]
