"""Tests in headless Chromium of long conversations: the page shows their end at once, and the rest while it is idle."""

import pytest

from test_page import QUESTION, chromium, page, server  # noqa: F401: fixtures
from test_page_sidebar import import_file

NUM_TURNS = 1000
MOST_AT_FIRST = 40
kAnswer = "The **sum** is `{0}`.\n\n| a | b |\n|---|---|\n| {0} | 2 |\n\n- one\n- two\n\n```py\nprint({0})\n```\n"


def long_conversation():
    messages = []
    for at in range(2 * NUM_TURNS):
        text = f"Question word{at}" if at % 2 == 0 else kAnswer.format(f"word{at}")
        fields = {"role": "user"} if at % 2 == 0 else {"role": "assistant", "reasoning": "Hm.", "calls": [], "finish": "stop"}
        parent = f"long.{at - 1}" if at else None
        messages.append({"id": f"long.{at}", "chat": "long", "parent": parent, "created": at, "content": text, **fields})
    return {"id": "long", "title": "Long", "leaf": messages[-1]["id"], "draft": "", "messages": messages}


@pytest.fixture
def opened(page, tmp_path):
    """Imports a conversation of 1,000 turns and opens it; the page has "opened" with the counts and the time."""
    import_file(page, tmp_path, long_conversation())
    page.wait("document.querySelector('nav .open')")
    page.driver.execute_async_script(
        """
        const done = arguments[0];
        const begin = performance.now();
        document.querySelector("nav .open").click();
        window.opened = {count: document.querySelectorAll(".turn").length, last: [...document.querySelectorAll(".turn")].at(-1)?.innerText};
        requestAnimationFrame(() => setTimeout(() => done(opened.ms = performance.now() - begin)));
        """
    )
    return page


def wait_for_all(page):
    page.wait("document.querySelectorAll('.turn').length === arguments[0]", 2 * NUM_TURNS)


def test_a_long_conversation_shows_its_end_at_once(opened, record_property):
    at_first = opened.js("window.opened")
    print(f"1,000 turns open in {at_first['ms']:.0f} ms")
    record_property("open_ms", at_first["ms"])
    assert 10 <= at_first["count"] <= MOST_AT_FIRST
    assert f"word{2 * NUM_TURNS - 1}" in at_first["last"]
    wait_for_all(opened)
    assert not opened.find("#earlier").is_displayed()


def test_all_messages_of_a_long_conversation_can_be_reached_searched_and_copied(opened):
    wait_for_all(opened)
    shown = opened.js("[...document.querySelectorAll('.turn')].map((turn) => turn.innerText.match(/word\\d+/)[0])")
    assert shown == [f"word{at}" for at in range(2 * NUM_TURNS)]
    opened.js("document.getElementById('log').scrollTo(0, 0)")
    assert opened.js("document.querySelector('.turn .said').getBoundingClientRect().top >= 0") and opened.find(".turn .said").is_displayed()
    assert opened.js("window.find('word0', false, false, true)") and opened.js("window.find('word1001')")
    copied = opened.js("(getSelection().selectAllChildren(document.getElementById('turns')), getSelection().toString())")
    assert all(f"word{at}" in copied for at in (0, 1, 1000, 1999))
    opened.fill("#search", "word7 print")
    assert opened.text("#conversations .open").split("\n") == ["Long", "The sum is word7 . | a | b | | word7 | 2 | - one - two py print(word7) Hm."]


def test_a_busy_browser_and_one_without_idle_time_show_all_messages_in_steps(page, tmp_path):
    import_file(page, tmp_path, long_conversation())
    page.wait("document.querySelector('nav .open')")
    # Steps are run by timers, with no idle time; `steps` are their lengths.
    page.js(
        """(window.steps = [], window.requestIdleCallback = (step) => setTimeout(() => {
          const begin = performance.now();
          step({didTimeout: true, timeRemaining: () => 0});
          steps.push(performance.now() - begin);
        }), 0)"""
    )
    page.js("document.querySelector('nav .open').click()")
    wait_for_all(page)
    assert 5 < page.js("window.steps.length") < (2 * NUM_TURNS - MOST_AT_FIRST) / 5  # more than the least number of messages a step


def test_what_is_read_does_not_move_while_earlier_messages_are_added(opened):
    # Scrolls up at once to a message that is shown at first, and records its position.
    opened.driver.refresh()
    place = """((begin) => {
      const turn = [...document.querySelectorAll(".turn")].at(-20);
      if (begin) document.getElementById("log").scrollTop = turn.offsetTop - document.getElementById("log").offsetTop;
      return turn.getBoundingClientRect().top;
    })(arguments[0])"""
    opened.wait("document.querySelectorAll('.turn').length > 20")
    before = opened.js(place, True)
    wait_for_all(opened)
    assert abs(opened.js(place, False) - before) < 3


def test_a_button_leads_to_the_end_while_something_else_is_read(opened):
    wait_for_all(opened)
    assert not opened.find("#to-end").is_displayed()
    opened.js("document.getElementById('log').scrollTo(0, 1000)")
    opened.wait("!document.getElementById('to-end').hidden")
    opened.click("#to-end")
    opened.wait("document.getElementById('to-end').hidden")
    assert opened.js("[...document.querySelectorAll('.turn')].at(-1).getBoundingClientRect().bottom <= innerHeight")
    assert opened.driver.switch_to.active_element.get_attribute("id") == "input"


def test_a_long_conversation_can_be_continued_before_all_of_it_is_shown(opened):
    opened.driver.refresh()
    opened.wait("document.querySelector('.turn')")
    opened.js("(window.fetch = () => new Promise(() => {}), 0)")
    opened.js("(document.getElementById('input').value = arguments[0], document.getElementById('send').click())", QUESTION)
    wait = "[...document.querySelectorAll('.turn .said')].filter((said) => said.textContent === arguments[0]).length === 1"
    opened.wait(wait, QUESTION)
    opened.wait("document.querySelectorAll('.turn').length === arguments[0]", 2 * NUM_TURNS + 2)
    assert opened.js("[...document.querySelectorAll('.turn')].at(-2).querySelector('.said').textContent") == QUESTION
