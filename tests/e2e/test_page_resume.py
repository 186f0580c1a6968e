"""Tests in headless Chromium that an answer outlives its connection, its page and its tab."""

import contextlib
import json
import re
import signal
import socket
import threading
import urllib.request

import browser
import ports
import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, begin_endless_answer, chromium, visit_anew  # noqa: F401: a fixture
from test_page_storage import database
from test_replicas import wait_until
from test_serve import serving

LENGTH = 1500  # tokens of an answer that is interrupted
ANSWER = "document.querySelector('.turn.assistant .answer')?.innerText.length ?? 0"
LAST_END = "[...document.querySelectorAll('.end')].at(-1).innerText"
HANDLES = "Object.keys(localStorage).filter((key) => key.startsWith('nibble.answer'))"
RUNNING = "fetch('/status.json').then((reply) => reply.json()).then(({engine}) => engine.running + engine.waiting)"


class Wire:
    """Forwards connections to a server. It can be cut, and refuses connections until it is mended."""

    def __init__(self, port):
        self.port, self.is_cut, self.sockets = port, False, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self.is_cut:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self.port))
                self.sockets += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self.forward, args=(source, target), daemon=True).start()

    def forward(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        self.close([source, target])

    def close(self, sockets):
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def cut(self):
        self.is_cut = True
        self.close(self.sockets)

    def mend(self):
        self.is_cut = False


@pytest.fixture(scope="module")
def server():
    with serving("--max-batch-tokens", 16, "--max-sequences", 2) as running:
        yield running


@pytest.fixture
def page(chromium, server):
    """The page as a new visitor sees it, with greedy answers."""
    visit_anew(chromium, server.url)
    yield chromium
    assert chromium.console_errors() == []
    chromium.requests()
    chromium.wait(RUNNING + ".then((number) => number === 0)")


@contextlib.contextmanager
def standing_still(server):
    """Stops the server's process: no answer ends meanwhile, however fast the machine is."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def begin_answer(page, num_characters=200, length=LENGTH):
    """Asks for an answer, and returns the request's body when its text has begun."""
    page.js("(window.more = {min_tokens: arguments[0], max_tokens: arguments[0]}, 0)", length)
    page.type("#input", "Tell me a story about a fox." + Keys.ENTER)
    page.wait("document.querySelector('.reasoning .said')?.textContent.length > 10")
    page.wait(f"{ANSWER} >= arguments[0]", num_characters)
    page.js("(window.more = {}, 0)")
    assert len(page.js(HANDLES)) == 1, "the answer is complete already"
    return page.js("window.sent.at(-1)")


def expected(body, server):
    """Returns the whole answer to this request."""
    body = {**body, "min_tokens": LENGTH, "max_tokens": LENGTH, "stream": False}
    for name in ("stream_options", "resumable", "return_progress"):
        body.pop(name)
    request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=100) as reply:
        return json.loads(reply.read())["choices"][0]["message"]


def wait_until_over(page):
    """Waits until no answer goes on. After a reload, an answer is not busy at once."""
    page.wait(HANDLES + ".length === 0")
    page.wait_for_end()


def check_answer(page, wanted):
    """Checks the last answer by what the page sends of it with the next question, and its reasoning."""
    wait_until_over(page)
    assert page.js("document.querySelector('.reasoning .said').textContent") == wanted["reasoning_content"]
    page.ask("Thank you.")
    assert page.js("window.sent.at(-1).messages[1].content") == wanted["content"]
    wait_until_over(page)


def test_an_answer_goes_on_after_a_lost_connection(chromium, server):
    wire = Wire(server.port)
    visit_anew(chromium, wire.url)
    body = begin_answer(chromium)
    wire.cut()
    chromium.wait("document.querySelector('.stage')?.innerText === 'The connection is lost. Trying again …'")
    assert chromium.find(".stage").is_displayed() and chromium.find("#stop").is_displayed()
    wire.mend()
    check_answer(chromium, expected(body, server))
    assert not chromium.find(".stage").is_displayed()


@pytest.mark.parametrize("stage", ["reasoning", "answer", "several times", "complete at the server"])
def test_an_answer_goes_on_after_a_reload(page, server, stage):
    body = begin_answer(page, 0 if stage == "reasoning" else 200)
    if stage == "complete at the server":
        page.driver.get(server.url + "/status")
        page.wait(RUNNING + ".then((number) => number === 0)")
        page.driver.get(server.url + "/")
    for _ in range(3 if stage == "several times" else 1):
        page.driver.refresh()
    check_answer(page, expected(body, server))


def test_an_answer_goes_on_when_its_conversation_is_opened_again_in_another_tab(page, server):
    body = begin_answer(page)
    address, first = page.js("location.href"), page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    second = page.driver.current_window_handle
    page.driver.execute_cdp_cmd("Target.closeTarget", {"targetId": first})
    page.driver.switch_to.window(second)
    page.command("Page.addScriptToEvaluateOnNewDocument", source=browser.kWatch)
    page.driver.get(address)
    check_answer(page, expected(body, server))


def test_another_tab_goes_on_when_the_tab_that_received_the_answer_closes(page, server):
    body = begin_answer(page)
    address, first = page.js("location.href"), page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    second = page.driver.current_window_handle
    page.command("Page.addScriptToEvaluateOnNewDocument", source=browser.kWatch)
    page.driver.get(address)
    page.wait(f"{ANSWER} > 0")
    page.driver.execute_cdp_cmd("Target.closeTarget", {"targetId": first})
    page.driver.switch_to.window(second)
    check_answer(page, expected(body, server))


def test_a_question_that_waits_shows_its_place_and_outlives_a_reload(page, server):
    bodies = json.dumps({"prompt": "It was", "max_tokens": 30000, "temperature": 1, "ignore_eos": True, "stream": True})
    before = [server.post("/v1/completions", bodies.encode()) for _ in range(2)]
    page.wait(RUNNING + ".then((number) => number === 2)")
    page.type("#input", QUESTION + Keys.ENTER)
    page.wait("/^Queued \\(1st\\)(, \\d+ s)? …$/.test(document.querySelector('.stage')?.innerText)")
    page.driver.refresh()
    page.wait("/^Queued \\(1st\\)(, \\d+ s)? …$/.test(document.querySelector('.stage')?.innerText)")
    for connection in before:
        connection.close()
    wait_until_over(page)
    assert page.last(".answer") == "17 + 25 = 42."
    assert page.js("window.sent") == []  # it was not asked again


def test_the_progress_of_a_long_prompt_is_shown(page):
    page.fill("#input", "fox " * 6000)
    page.type("#input", Keys.ENTER)
    page.wait("/^Reading the prompt, [1-9]\\d? %(, \\d+ s)? …$/.test(document.querySelector('.stage')?.innerText)")
    page.click("#stop")
    page.wait_for_end()


def test_stop_and_deleting_the_conversation_end_the_answer_at_the_server(page):
    for by in ("stop", "stop after a reload", "delete"):
        begin_answer(page, length=30000)
        assert len(page.js(HANDLES)) == 1
        if by == "stop after a reload":
            page.driver.refresh()
            page.wait("document.querySelector('[aria-busy=true] .answer')")
        if by == "delete":
            page.js("window.confirm = () => true")
            page.click("nav .delete")
        else:
            page.click("#stop")
            page.wait_for_end()
            assert page.last(".end") == "Stopped."
        page.wait(RUNNING + ".then((number) => number === 0)")
        page.wait(HANDLES + ".length === 0")
        page.click("#new")


def test_after_a_restart_of_the_server_the_page_keeps_the_text_and_says_that_the_rest_is_lost(chromium):
    port = ports.free_ports(1)[0]
    with serving(port=port) as first:
        visit_anew(chromium, first.url)
        begin_answer(chromium, length=30000)
        first.process.kill()
        chromium.wait("document.querySelector('.stage')?.innerText.startsWith('The connection is lost.')")
        shown = chromium.last(".answer")
    with serving(port=port):
        chromium.wait_for_end()
        assert "The rest of this answer is lost: the server was restarted" in chromium.last(".error")
        assert chromium.last(".answer").startswith(shown[:200])
        chromium.driver.refresh()
        chromium.wait_for_end()
        assert "The rest of this answer is lost" in chromium.last(".error") and chromium.last(".answer").startswith(shown[:200])
        assert chromium.js(HANDLES) == []
        chromium.click(".retry")
        chromium.wait("window.sent.length === 1")
        wait_until_over(chromium)
        assert chromium.last(".versions .off-screen") == "Version 2 of 2"


def test_an_answer_that_the_server_does_not_keep_any_more_is_reported(chromium):
    with serving("--resume-time", 1) as server:
        visit_anew(chromium, server.url)
        begin_answer(chromium, length=30000)
        shown = chromium.last(".answer")
        stored = 'return (await result(store("messages").getAll())).some(({ content }) => content?.length >= 100)'
        wait_until(lambda: database(chromium, stored), 60)  # the page stores the text a moment after it shows it
        chromium.driver.get(server.url + "/status")
        chromium.wait(RUNNING + ".then((number) => number === 0)")  # the server has stopped it
        chromium.driver.get(server.url + "/")
        wait_until_over(chromium)
        assert "The rest of this answer is lost" in chromium.last(".error") and chromium.last(".answer").startswith(shown[:100])


def test_a_server_that_keeps_no_answers_is_used_as_before(chromium):
    with serving("--resume-time", 0) as server:
        visit_anew(chromium, server.url)
        chromium.ask(QUESTION)
        assert chromium.last(".answer") == "17 + 25 = 42." and chromium.js(HANDLES) == []
        begin_endless_answer(chromium)
        begun = 'return (await result(store("messages").getAll())).some(({ complete, content }) => complete === false && content)'
        wait_until(lambda: database(chromium, begun), 60)  # the page stores the text a moment after it shows it
        chromium.driver.refresh()
        chromium.wait_for_end()
        assert chromium.last(".end") == "Not complete." and re.search(r"\w", chromium.last(".answer"))


def test_a_tab_that_was_open_before_an_answer_goes_on_when_its_tab_closes(page, server):
    page.ask("What is 17 + 25?")
    address, first = page.js("location.href"), page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    second = page.driver.current_window_handle
    page.command("Page.addScriptToEvaluateOnNewDocument", source=browser.kWatch)
    page.driver.get(address)
    page.wait("document.querySelectorAll('.turn').length === 2")
    page.driver.switch_to.window(first)
    page.js("(window.more = {min_tokens: arguments[0], max_tokens: arguments[0]}, 0)", 30000)
    page.type("#input", "Tell me a story about a fox." + Keys.ENTER)
    page.wait("[...document.querySelectorAll('.answer')].at(-1).innerText.length > 100")
    with standing_still(server):
        page.driver.switch_to.window(second)
        page.wait(f"{LAST_END} === 'Another tab receives this answer.'")
        assert not page.find(".turn:last-child .go-on").is_displayed()
        page.driver.execute_cdp_cmd("Target.closeTarget", {"targetId": first})
        page.driver.switch_to.window(second)
        page.wait("document.querySelector('[aria-busy=true] .answer')")
        shown = page.last(".answer")
    page.wait("[...document.querySelectorAll('.answer')].at(-1).innerText.length > arguments[0]", len(shown) + 50)
    page.click("#stop")
    wait_until_over(page)
    assert page.last(".end") == "Stopped."


def test_a_page_that_is_loaded_again_goes_on_with_its_answer_before_other_tabs(page):
    heard = page.driver.execute_async_script(
        """
        const done = arguments[0];
        import("/page/chat/resume.js").then(async ({alone}) => {
          const handle = {id: "x", message: "m", chat: "c", parent: null, created: Date.now(), isJson: false};
          localStorage.setItem("nibble.answer / m", JSON.stringify(handle));
          let release = () => {}, tell = () => {};
          const receive = () => new Promise((begun) => navigator.locks.request("nibble.answer x", () => new Promise((resolve) => {
            release = resolve;
            begun();
          })));
          const heard = [];
          const hear = (what) => { heard.push(what); tell(); };
          const next = () => new Promise((resolve) => { tell = resolve; });
          await receive();
          const first = next();
          const over = alone(handle, async () => hear("goes on"), () => hear("waits"));
          await first;
          const second = next();
          release();
          await receive();  // the page with the answer was loaded again
          await second;
          release();
          await over;
          localStorage.removeItem("nibble.answer / m");
          done(heard);
        });
        """
    )
    assert heard == ["waits", "waits", "goes on"]


def test_an_answer_of_a_server_on_this_machine_goes_on_without_a_network(chromium, server):
    wire = Wire(server.port)
    visit_anew(chromium, wire.url)
    chromium.js("(Object.defineProperty(navigator, 'onLine', {value: false, configurable: true}), 0)")
    body = begin_answer(chromium)
    wire.cut()
    chromium.wait("document.querySelector('.stage')?.innerText === 'The connection is lost. Trying again …'")
    wire.mend()
    check_answer(chromium, expected(body, server))
