"""Tests in headless Chromium of the copy of the page that opens it without the server, and of the manifest."""

import http.server
import threading
import urllib.error
import urllib.request

import browser
import ports
import pytest

from test_page import QUESTION, chromium, page, server, violations  # noqa: F401: fixtures
from test_serve import serving

CACHED = """const done = arguments[0];
caches.keys().then(async (names) => done((await Promise.all(names.map(async (name) => (await (await caches.open(name)).keys()).map(({url}) => url)))).flat()));"""


def install(page, url):
    page.go(url + "/page/install/install.html")
    page.wait("document.getElementById('state').textContent === 'This browser has no copy.'")
    page.click("#add")
    page.wait("document.getElementById('state').textContent === 'This browser has a copy.'")


@pytest.fixture
def alone():
    """A browser that no other test has used."""
    with browser.chromium() as page:
        yield page


def test_an_installed_page_opens_with_its_conversations_while_the_server_is_off(alone):
    port = ports.free_ports(1)[0]
    with serving(port=port) as running:
        install(alone, running.url)
        alone.go(running.url + "/")
        alone.wait_for_end()
        alone.ask(QUESTION)
        address = alone.js("location.href")
        assert "/c/" in address
    for url in (running.url + "/", address):
        alone.go(url)
        alone.wait("document.querySelector('.answer')?.innerText === '17 + 25 = 42.'")
        alone.wait("document.getElementById('state').textContent === 'Offline'")
    alone.go(running.url + "/status")
    alone.wait("document.getElementById('fault').textContent.includes(\"can't be reached\")")
    with serving(port=port):
        alone.go(running.url + "/")
        alone.wait("document.getElementById('state').textContent === 'Ready'")
        alone.ask("What is 2 + 2?")
        assert alone.last(".answer") != ""


def test_nothing_but_the_files_of_the_page_is_stored(alone, server):
    install(alone, server.url)
    alone.go(server.url + "/")
    alone.wait("document.getElementById('state').textContent === 'Ready'")
    alone.ask(QUESTION)
    alone.go(server.url + "/status")
    alone.wait("document.querySelectorAll('#kernels td').length > 0")
    stored = alone.driver.execute_async_script(CACHED)
    assert len(stored) > 20 and all(url.startswith(server.url + "/page/") for url in stored)
    alone.go(server.url + "/page/install/install.html")
    alone.wait("document.getElementById('state').textContent === 'This browser has a copy.'")
    alone.click("#remove")
    alone.wait("document.getElementById('state').textContent === 'This browser has no copy.'")
    assert alone.driver.execute_async_script(CACHED) == []


class Proxy(http.server.BaseHTTPRequestHandler):
    """The server, with another title of the page: an upgrade."""

    upstream, title = "", "nibble"

    def do_GET(self):
        request = urllib.request.Request(self.upstream + self.path, headers={name: self.headers[name] for name in ("Accept",) if name in self.headers})
        try:
            reply = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            reply = error
        body = reply.read().replace(b"<title>nibble</title>", f"<title>{self.title}</title>".encode())
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_an_upgrade_of_the_server_is_never_hidden_by_the_copy(alone, server):
    Proxy.upstream = server.url
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{proxy.server_port}"
        install(alone, url)
        alone.go(url + "/")
        assert alone.driver.title == "nibble"
        Proxy.title = "nibble, upgraded"
        alone.driver.refresh()
        assert alone.driver.title == "nibble, upgraded"
        Proxy.title = "nibble"
        proxy.shutdown()


def test_the_browser_can_install_the_page(page):
    assert page.command("Page.getInstallabilityErrors")["installabilityErrors"] == []
    manifest = page.command("Page.getAppManifest")
    assert manifest["errors"] == [] and manifest["url"].endswith("/page/install/manifest.webmanifest")


def test_axe_finds_no_violation_on_the_page_that_installs(page, server):
    page.go(server.url + "/page/install/install.html")
    page.wait("document.getElementById('state').textContent !== ''")
    for scheme, width in (("light", 1000), ("dark", 390)):
        assert violations(page, scheme, width) == []
