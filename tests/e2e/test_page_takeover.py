"""Tests in headless Chromium of a tab in use that goes on with an answer when the tab that received it closes."""

import browser
import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, chromium, page  # noqa: F401: fixtures
from test_page_resume import HANDLES, LENGTH, standing_still
from test_page_versions import retry_endlessly, step, versions
from test_serve import serving

TAKEN = "getComputedStyle(document.getElementById('stop')).display !== 'none'"  # this tab receives an answer
ENDS = "[...document.querySelectorAll('.turn.assistant .end')].map((end) => end.innerText)"
LONG = "(({scrollHeight, clientHeight}) => scrollHeight > 1.5 * clientHeight)(document.getElementById('log'))"
ELSEWHERE = "Another tab receives this answer."


@pytest.fixture(scope="module")
def server():
    with serving("--max-batch-tokens", 16, "--max-sequences", 2) as running:
        yield running


def close_first_tab(page, first, second):
    first()
    handle = page.driver.current_window_handle
    second()
    page.driver.execute_cdp_cmd("Target.closeTarget", {"targetId": handle})


@pytest.fixture
def two_tabs(page, server):
    """A conversation that is open in two tabs, as functions that switch to them. Both may be closed."""
    driver, own, handles = page.driver, page.driver.current_window_handle, []
    driver.get(server.url + "/status")  # so this tab goes on with no answer
    for _ in range(2):
        driver.switch_to.new_window("tab")
        handles.append(driver.current_window_handle)
        page.command("Page.addScriptToEvaluateOnNewDocument", source=browser.kWatch)
        driver.get(server.url + "/")
        page.wait_for_end()
        if len(handles) == 1:
            page.ask(QUESTION)
    page.click("nav .open")
    yield [lambda handle=handle: driver.switch_to.window(handle) for handle in handles]
    for handle in driver.window_handles:
        if handle != own:
            driver.execute_cdp_cmd("Target.closeTarget", {"targetId": handle})
    driver.switch_to.window(own)


def test_an_edit_of_another_version_stays_when_the_tab_goes_on_with_the_answer(page, server, two_tabs):
    first, second = two_tabs
    first()
    retry_endlessly(page)
    with standing_still(server):
        second()
        page.wait(f"{ENDS}.at(-1) === arguments[0]", ELSEWHERE)
        step(page, -1)
        page.click(".turn.assistant .edit")
        page.fill(".turn.assistant textarea", "half an edit")
        close_first_tab(page, first, second)
        page.wait(TAKEN)
    assert page.js("document.querySelector('.turn.assistant textarea')?.value") == "half an edit"
    page.press(Keys.ESCAPE)
    page.driver.switch_to.alert.accept()
    assert versions(page) == "1/2"
    step(page, 1)
    begun = page.last(".answer")
    page.wait("document.querySelector('[aria-busy=true] .answer')?.innerText.length > arguments[0]", len(begun) + 50)
    page.click("#stop")
    page.wait_for_end()


def test_what_the_user_reads_stays_when_the_tab_goes_on_with_the_answer(page, server, two_tabs):
    first, second = two_tabs
    first()
    retry_endlessly(page)
    page.wait(LONG)
    with standing_still(server):
        second()
        page.wait(f"{ENDS}.at(-1) === arguments[0]", ELSEWHERE)
        page.wait(LONG)
        page.js("(document.getElementById('log').scrollTop = 0)")
        close_first_tab(page, first, second)
        page.wait("document.querySelector('[aria-busy=true]')")
        assert page.js("document.getElementById('log').scrollTop") == 0
    page.click("#stop")
    page.wait_for_end()


def test_an_answer_goes_on_after_the_one_that_the_tab_receives_in_the_same_conversation(page, server, two_tabs):
    first, second = two_tabs
    first()
    page.js("(window.more = {min_tokens: arguments[0], max_tokens: arguments[0]}, 0)", LENGTH)
    page.type("#input", "Tell me a story about a fox." + Keys.ENTER)
    page.wait("[...document.querySelectorAll('[aria-busy=true] .answer')].at(-1)?.innerText.length > 20")
    with standing_still(server):
        second()
        page.wait(f"{ENDS}.at(-1) === arguments[0]", ELSEWHERE)
        page.js("(window.more = {min_tokens: 30000}, 0)")
        page.type("#input", "Tell me a story about a dog." + Keys.ENTER)
        page.wait(TAKEN)
        close_first_tab(page, first, second)
        page.wait(f"{ENDS}[1] === 'Not complete.'")
    page.wait("[...document.querySelectorAll('[aria-busy=true] .answer')].at(-1)?.innerText.length > 20")
    page.click("#stop")
    page.wait(f"{ENDS}[1].startsWith('Cut off')")
    page.wait_for_end()
    assert page.js(f"{ENDS}[2]") == "Stopped." and page.js(HANDLES) == []


def with_lock_of_another_tab(page, steps):
    """Runs `steps` while another tab holds the lock of an answer, until release() is called. Returns what `heard` holds then."""
    return page.driver.execute_async_script(
        """
        const done = arguments[0];
        import("/page/chat/resume.js").then(async ({alone}) => {
          const handle = {id: "x", message: "m", chat: "c", parent: null, created: Date.now(), isJson: false};
          localStorage.setItem("nibble.answer / m", JSON.stringify(handle));
          const request = navigator.locks.request.bind(navigator.locks), heard = [];
          let release;
          await new Promise((begun) => request("nibble.answer x", () => new Promise((resolve) => {
            release = resolve;
            begun();
          })));
          STEPS
          localStorage.removeItem("nibble.answer / m");
          done(heard);
        });
        """.replace("STEPS", steps)
    )


def test_a_suspended_tab_keeps_no_answer_from_the_page_that_is_loaded_again(page):
    heard = with_lock_of_another_tab(
        page,
        """
          // The suspended tab does not end a lock that it waited for.
          navigator.locks.request = (name, options, work) =>
            options.ifAvailable ? request(name, options, work) : request(name, ...(work ? [options] : []), () => new Promise(() => {}));
          await new Promise((waits) => alone(handle, async () => true, waits));
          release();
          navigator.locks.request = request;
          await alone(handle, async () => { heard.push("goes on"); return true; }, () => done("waits"));
        """,
    )
    assert heard == ["goes on"]


def test_a_page_that_is_loaded_again_waits_a_moment_for_the_lock_of_the_page_before(page):
    heard = with_lock_of_another_tab(
        page,
        """
          navigator.locks.request = async (...parts) => {
            const told = await request(...parts);
            release();  // after the first look
            return told;
          };
          await alone(handle, async () => { heard.push("goes on"); return true; }, () => heard.push("waits"));
          navigator.locks.request = request;
        """,
    )
    assert heard == ["goes on"]
