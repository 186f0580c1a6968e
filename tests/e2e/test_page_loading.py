"""Tests in headless Chromium of files of the page that fail to load: because the server was restarted, or the network changed."""

import contextlib
import http.server
import threading
import urllib.error
import urllib.request

import pytest

from test_page import chromium, server, violations  # noqa: F401: fixtures
from test_replicas import wait_until

ALWAYS = 1 << 30
LINE = "document.getElementById('not-loaded')?.checkVisibility({visibilityProperty: true})"
PAGES = {"/": "/page/chat/chat.js", "/c/0011aa": "/page/chat/chat.js", "/status": "/page/status/status.js", "/page/install/install.html": "/page/install/install.js"}
INPUT = "document.getElementById('input')?.value"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with contextlib.suppress(ConnectionError):  # the page was left
            self.server.forward(self)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Proxy(http.server.ThreadingHTTPServer):
    """The server, behind a wire that fails for some paths."""

    daemon_threads = True

    def __init__(self, upstream):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream, self.url = upstream, f"http://127.0.0.1:{self.server_port}"
        self.failures, self.asked, self.lock = {}, [], threading.Lock()
        self.old = {}  # texts that are sent once instead of the server's, by path
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def fail(self, path, number=ALWAYS):
        """The next `number` requests of a path fail: scripts and styles are cut off, other requests get status 503."""
        self.failures[path] = number

    def fails(self, method, path):
        with self.lock:
            if method == "GET":
                self.asked.append(path)
            name = path.split("?")[0]
            self.failures[name] = self.failures.get(name, 0) - 1
            return self.failures[name] >= 0

    def forward(self, handler):
        if self.fails(handler.command, handler.path):
            # Chromium repeats a request without any answer.
            is_cut = handler.command == "GET" and handler.path.split("?")[0].endswith((".js", ".css"))
            handler.send_response(200 if is_cut else 503)
            handler.send_header("Content-Type", "text/javascript" if ".js" in handler.path else "text/css")
            handler.send_header("Content-Length", "100" if is_cut else "0")
            handler.end_headers()
            handler.close_connection = True
            return
        kept = {name: handler.headers[name] for name in ("Accept",) if name in handler.headers}
        request = urllib.request.Request(self.upstream + handler.path, headers=kept, method=handler.command)
        try:
            reply = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            reply = error
        body = self.old.pop(handler.path, None) or reply.read()
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server", "etag"):
                handler.send_header(name, value)
        handler.send_header("Content-Length", reply.headers["Content-Length"] if handler.command == "HEAD" else str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@pytest.fixture
def proxy(chromium, server):
    proxy = Proxy(server.url)
    chromium.go(proxy.url + "/status")
    chromium.js("(sessionStorage.clear(), 0)")
    chromium.forget(proxy.url)
    chromium.command("Network.setCacheDisabled", cacheDisabled=True)
    chromium.driver.get("about:blank")
    proxy.asked.clear()
    yield proxy
    chromium.driver.get("about:blank")
    proxy.shutdown()
    proxy.server_close()


def started(page):
    page.wait("document.documentElement?.dataset.started === '' && !document.querySelector('#log[aria-busy]')")


@pytest.mark.parametrize("path, file", [*PAGES.items(), ("/", "/page/storage/tree.js"), ("/", "/page/base/page.css"), ("/", "/page/base/theme.js"), ("/status", "/page/base/dom.js")])
def test_a_page_whose_file_fails_once_loads_itself_again(chromium, proxy, path, file):
    proxy.fail(file, 1)
    chromium.driver.get(proxy.url + path)
    started(chromium)
    chromium.wait("performance.getEntriesByType('navigation')[0]?.type === 'reload'")
    started(chromium)
    assert not chromium.js(LINE) and proxy.asked.count(file) == 2


@pytest.mark.parametrize("path", PAGES)
def test_a_page_whose_file_fails_again_says_so_and_offers_to_load_it(chromium, proxy, path):
    proxy.fail("/page/base/dom.js")
    chromium.driver.get(proxy.url + path)
    chromium.wait(LINE)
    assert chromium.text("#not-loaded") == "This page did not load completely. Load again"
    assert proxy.asked.count("/page/base/dom.js") == 2
    assert violations(chromium, "dark", 390) == []
    chromium.click("#not-loaded a")
    wait_until(lambda: proxy.asked.count("/page/base/dom.js") == 3, 60)
    chromium.wait(LINE)
    proxy.fail("/page/base/dom.js", 0)
    chromium.click("#not-loaded a")
    started(chromium)
    assert not chromium.js(LINE) and proxy.asked.count("/page/base/dom.js") == 4  # it loaded itself again only once


def test_what_was_typed_meanwhile_is_kept(chromium, proxy):
    proxy.fail("/page/base/dom.js")
    chromium.driver.get(proxy.url + "/")
    chromium.wait(LINE)
    chromium.type("#input", "half a question")
    chromium.click("#not-loaded a")
    chromium.wait(f"{LINE} && {INPUT} === 'half a question'")
    chromium.type("#input", ", and more")
    proxy.fail("/page/base/dom.js", 0)
    chromium.click("#not-loaded a")
    started(chromium)
    assert chromium.js(INPUT) == "half a question, and more"
    chromium.type("#input", "?")
    chromium.driver.refresh()
    started(chromium)
    assert chromium.js(INPUT) == "half a question, and more?"


def test_a_page_waits_for_a_server_that_is_restarted(chromium, proxy):
    proxy.fail("/page/storage/tree.js")
    proxy.fail("/page/chat/chat.js", 4)  # the first load, and the looks whether the server answers
    chromium.driver.get(proxy.url + "/")
    chromium.wait(LINE)
    chromium.type("#input", "typed while it waits")
    proxy.fail("/page/storage/tree.js", 0)
    started(chromium)
    assert chromium.js(INPUT) == "typed while it waits" and not chromium.js(LINE)


@pytest.mark.parametrize("missing", ["all files", "all scripts"])
def test_a_page_that_got_nothing_but_its_html_offers_to_load_it(chromium, proxy, missing):
    for path in ["/page/chat/chat.css", "/page/base/page.css"] if missing == "all files" else []:
        proxy.fail(path)
    for path in ["/page/base/loading.js", "/page/base/theme.js", "/page/chat/chat.js"]:
        proxy.fail(path)
    chromium.driver.get(proxy.url + "/")
    if missing == "all scripts":
        assert not chromium.js(LINE)  # not at once: it may still be loading
        chromium.js("document.getAnimations().forEach((animation) => animation.finish())")
    assert chromium.js(LINE)
    proxy.failures.clear()
    chromium.click("#not-loaded a")
    started(chromium)
    assert not chromium.js(LINE)


def test_scripts_of_two_versions_are_loaded_again(chromium, proxy):
    """The server was upgraded while the page was loading: a module lacks what another one imports."""
    proxy.old["/page/base/dom.js"] = b"export const h = 1;"
    chromium.driver.get(proxy.url + "/")
    started(chromium)
    chromium.wait("performance.getEntriesByType('navigation')[0]?.type === 'reload'")
    assert proxy.asked.count("/page/base/dom.js") == 2


def test_a_page_without_session_storage_does_not_load_itself_in_a_circle(chromium, proxy):
    blocked = chromium.command("Page.addScriptToEvaluateOnNewDocument", source="""
      for (const name of ["getItem", "setItem", "removeItem"]) Storage.prototype[name] = () => { throw new DOMException("", "SecurityError"); };""")
    proxy.fail("/page/base/dom.js", 1)
    chromium.driver.get(proxy.url + "/")
    chromium.wait(LINE)
    assert proxy.asked.count("/page/base/dom.js") == 1
    chromium.click("#not-loaded a")
    started(chromium)
    chromium.command("Page.removeScriptToEvaluateOnNewDocument", **blocked)


# files that are loaded later


def test_formulas_and_code_stay_readable_until_their_libraries_load(chromium, proxy):
    libraries = ("/page/reading/katex.js", "/page/reading/highlight.js")
    for path in libraries:
        proxy.fail(path)
    chromium.driver.get(proxy.url + "/")
    started(chromium)
    answer = {"role": "assistant", "content": "$x^2$\n\n```python\ndef f(): pass\n```", "reasoning": "", "calls": []}
    chromium.js("localStorage.setItem('nibble.chat.1', JSON.stringify({id: '1', changed: 1, messages: [{role: 'user', content: 'a'}, arguments[0]]}))", answer)
    chromium.driver.refresh()
    started(chromium)
    chromium.click("nav .open")
    assert chromium.text(".math") == "$x^2$" and chromium.text("pre") == "def f(): pass"
    for path in libraries:
        wait_until(lambda: sum(asked.startswith(path) for asked in proxy.asked) >= 2, 60)  # it is tried again
        assert chromium.text(".math") == "$x^2$"
        proxy.fail(path, 0)
    chromium.wait("document.querySelector('.math msup') && document.querySelector('pre .hljs-keyword')")
    assert chromium.text("pre") == "def f(): pass"


def test_the_frame_of_the_sandbox_is_loaded_again(chromium, proxy):
    proxy.fail("/page/tools/sandbox.html", 2)
    chromium.driver.get(proxy.url + "/")
    started(chromium)
    run = "import('/page/tools/sandbox.js').then(({runJavaScript}) => runJavaScript('6 * 7', new AbortController().signal)).then(arguments[0], (error) => arguments[0](error.message))"
    assert chromium.driver.execute_async_script(run) == "42"
    assert proxy.asked.count("/page/tools/sandbox.html") == 3
