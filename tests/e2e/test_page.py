"""Tests the page in headless Chromium, with the miniature model."""

import contextlib
import json
import os
import pathlib
import re
import urllib.error
import urllib.request

import axe_core_python
import browser
import pytest
from selenium.webdriver.common.keys import Keys

from test_serve import ENDLESS, TOOLS, first_event, serving

QUESTION = "What is 17 + 25?"
SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"], "additionalProperties": False}
AXE = (pathlib.Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
if not browser.CHROMIUM or not browser.DRIVER:
    if os.environ.get("CI") == "true":
        raise RuntimeError("the tests of the page need Debian's packages chromium and chromium-driver")
    pytest.skip("there is no chromium, or no chromedriver", allow_module_level=True)


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def chromium():
    with browser.chromium() as page:
        yield page


def visit_anew(chromium, url):
    """Opens the page of this server as a new visitor sees it, with greedy answers. The console's messages and requests of
    pages that were open before are dropped: a page asks for its server's state until it is left, also if the server of an
    earlier test has ended."""
    chromium.go(url + "/status")
    chromium.console_errors()
    chromium.requests()
    chromium.forget(url)
    chromium.js("sessionStorage.clear()")
    chromium.js("localStorage.setItem('nibble.settings', JSON.stringify({temperature: '0'}))")
    chromium.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    chromium.go(url + "/")
    chromium.wait_for_end()


@pytest.fixture
def page(chromium, server):
    """The page as a new visitor sees it, with greedy answers. Whatever a test does, the page may contact only the
    server, and the console must be free of warnings and errors."""
    visit_anew(chromium, server.url)
    yield chromium
    assert chromium.console_errors() == []
    asked = chromium.requests()
    assert asked and [url for url in asked if not url.startswith((server.url + "/", "blob:" + server.url))] == []


def begin_endless_answer(page):
    page.js("window.more = {min_tokens: 30000}")  # the end token cannot be chosen earlier
    page.type("#input", "Tell me a story about a fox." + Keys.ENTER)
    page.wait("document.querySelector('[aria-busy=true] .answer')?.innerText.length > 20")
    page.js("window.more = {}")


# chat


def test_an_answer_is_streamed_with_its_reasoning_folded(page):
    begin_endless_answer(page)
    begun = page.text(".answer")
    page.wait("document.querySelector('.answer').innerText.length > arguments[0]", len(begun) + 50)
    assert page.text(".answer").startswith(begun[:20])
    assert page.find("article.assistant").get_attribute("aria-busy") == "true"
    assert not page.find("#send").is_displayed() and page.find("#stop").is_displayed()
    page.click("#stop")
    page.wait_for_end()
    page.click("#new")

    page.ask(QUESTION)
    assert page.last(".answer") == "17 + 25 = 42."
    assert re.fullmatch(
        r"\d+ tokens, \d+(\.\d)? tokens/s, the first after \d+ ms; prompt of \d+ tokens, \d+ of them cached; effort medium",
        page.last(".numbers"),
    )
    assert not page.find(".reasoning .said").is_displayed()
    assert re.fullmatch(r"Reasoning, \d+ tokens in \d+\.\d s", page.text(".reasoning summary"))
    page.click(".reasoning summary")
    assert "carry" in page.text(".reasoning .said")
    page.ask("And 20 + 30?")
    assert "carry" in page.js("document.querySelector('.reasoning .said').innerText")  # it is still unfolded
    cached = int(re.search(r"(\d+) of them cached", page.last(".numbers"))[1])
    assert cached >= 64  # whole pages of the first prompt
    [*_, first, second] = page.js("window.sent")
    assert first["messages"] == [{"role": "user", "content": QUESTION}] and first["temperature"] == 0
    assert second["messages"][:2] == [*first["messages"], {"role": "assistant", "content": "17 + 25 = 42."}]
    assert first["reasoning_effort"] == "medium" and "response_format" not in first and "tools" not in first


def test_the_page_says_what_it_waits_for_and_shows_reasoning_until_the_answer_begins(page):
    # Holds the answer back in two places: before its first byte, and after the first reasoning.
    page.js(
        """(window.answered = window.fetch, window.fetch = async (address, options) => {
          if (!options?.body) return window.answered(address, options);
          const chunk = (delta, count) => `data: ${JSON.stringify({choices: [{delta}], usage: {prompt_tokens: 9, completion_tokens: count,
            prompt_tokens_details: {cached_tokens: 0}, completion_tokens_details: {reasoning_tokens: Math.min(count, 5)}}})}\\n\\n`;
          const next = (name) => new Promise((resolve) => { window[name] = resolve; });
          await next("begin");
          const parts = [chunk({reasoning_content: "Let me think."}, 5), chunk({content: "Four."}, 7) + "data: [DONE]\\n\\n"];
          return new Response(new ReadableStream({async pull(controller) {
            if (parts.length === 1) await next("answer");
            if (parts.length) controller.enqueue(new TextEncoder().encode(parts.shift()));
            else controller.close();
          }}));
        }, 0)"""
    )
    page.type("#input", "What is 2 + 2?" + Keys.ENTER)
    page.wait("/^Waiting for the first token, [23] s …$/.test(document.querySelector('.stage')?.innerText)")
    page.js("window.begin()")
    page.wait("document.querySelector('.reasoning .said').innerText === 'Let me think.'")
    assert not page.find(".stage").is_displayed()
    assert re.fullmatch(r"Reasoning, 5 tokens in \d+\.\d s …", page.text(".reasoning summary"))
    page.js("window.answer()")
    page.wait_for_end()
    assert page.last(".answer") == "Four." and not page.find(".reasoning .said").is_displayed()
    page.js("(window.fetch = window.answered, 0)")


def test_the_page_says_which_model_runs_on_what(page):
    page.wait("document.getElementById('model').textContent === 'tiny on cpu'")


def test_an_answer_can_be_stopped_and_gone_on_from(page, server):
    begin_endless_answer(page)
    page.press(Keys.ESCAPE)
    page.wait_for_end()
    kept = page.text(".answer")
    assert len(kept) > 20
    assert re.match(r"\d+ tokens, ", page.last(".numbers")) and page.last(".end") == "Stopped."
    # The engine must have stopped too.
    page.wait("fetch('/status.json').then((reply) => reply.json()).then(({engine}) => engine.running === 0)")
    page.ask(QUESTION)
    assert page.last(".answer") != "" and len(page.js("window.sent.at(-1)")["messages"]) == 3


def test_an_answer_goes_on_while_another_conversation_is_looked_at(page):
    begin_endless_answer(page)
    page.click("#new")
    page.ask(QUESTION)
    assert page.last(".answer") == "17 + 25 = 42."
    page.js("[...document.querySelectorAll('nav .open')].find((item) => item.textContent.startsWith('Tell')).click()")
    page.wait("document.querySelector('[aria-busy=true] .answer').innerText.length > 50")
    page.click("#stop")
    page.wait_for_end()


def test_editing_a_message_asks_from_there(page):
    page.ask("What is 1 + 1?")
    page.ask("What is 2 + 2?")
    page.js("document.querySelector('.turn.user .edit').click()")
    assert page.driver.switch_to.active_element.get_attribute("aria-label") == "Edit your message"
    page.press(Keys.ESCAPE)
    assert page.text(".turn.user .said") == "What is 1 + 1?"
    page.js("document.querySelector('.turn.user .edit').click()")
    page.fill(".turn.user textarea", QUESTION)
    page.click(".turn.user button[type=submit]")
    page.wait("document.querySelectorAll('.turn').length === 2")
    page.wait_for_end()
    assert page.last(".answer") == "17 + 25 = 42."
    assert page.js("window.sent.at(-1).messages") == [{"role": "user", "content": QUESTION}]


def test_retrying_asks_the_same_again(page):
    page.ask(QUESTION)
    page.click(".retry")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    assert page.last(".answer") == "17 + 25 = 42."
    first, second = page.js("window.sent")
    assert first == second


def test_calls_are_shown_and_take_their_results(page):
    page.settings(tools=json.dumps(TOOLS))
    page.ask("What is the weather in Oslo?")
    assert page.js("window.sent.at(-1).tools") == TOOLS
    assert page.last(".call h3") == "Call: get_weather"
    assert "city" in json.loads(page.last(".call pre"))
    page.type(".results textarea", '{"temperature": 7}')
    page.click(".results button")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    *_, call, result = page.js("window.sent.at(-1).messages")
    assert call["tool_calls"][0]["function"]["name"] == "get_weather" and "reasoning_content" in call
    assert result == {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": '{"temperature": 7}'}
    assert page.last(".answer") and not page.js("document.querySelector('.results')")


def test_a_schema_is_sent_and_its_answer_or_refusal_shown(page, server):
    page.settings(schema="{")
    assert "not valid JSON" in page.text("#schema-fault") and page.find("#settings").is_displayed()
    page.fill("#schema", json.dumps(SCHEMA))
    page.click("#save-settings")
    page.ask(QUESTION)
    body = page.js("window.sent.at(-1)")
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    try:
        urllib.request.urlopen(urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode()), timeout=60).read()
        refusal = None
    except urllib.error.HTTPError as error:
        refusal = json.load(error)["error"]["message"]
    if refusal is None:
        told = json.loads(page.last(".code pre"))
        assert list(told) == ["sum"] and isinstance(told["sum"], int)
    else:
        assert page.last(".error") == f"{refusal} (status 400)" and "response_format" in refusal
        assert len(page.console_errors()) == 1  # Chromium logs every answer with status 400
    page.settings(schema="")
    page.click(".retry")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    assert page.last(".answer") == "17 + 25 = 42." and "response_format" not in page.js("window.sent.at(-1)")


@pytest.mark.parametrize(
    "said, shown", [('{"a b":[1.5]}', '{\n  "a b": [\n    1.5\n  ]\n}'), ('{"a":12345678901234567890}', '{"a":12345678901234567890}'), ('{"a":', '{"a":')]
)
def test_json_is_indented_where_it_stays_the_same(page, said, shown):
    answer = {"role": "assistant", "content": said, "reasoning": "", "calls": [], "isJson": True}
    page.js("localStorage.setItem('nibble.chat.1', JSON.stringify({id: '1', changed: 1, messages: [{role: 'user', content: 'a'}, arguments[0]]}))", answer)
    page.driver.refresh()
    page.wait_for_end()
    page.click("nav .open")
    assert page.last(".code pre") == shown


def test_a_lost_connection_is_told_and_keeps_what_was_written(page):
    page.ask(QUESTION)
    page.js("window.more = {temperature: 7}")
    page.ask("And 20 + 30?")
    assert "temperature must be a number" in page.last(".error")
    assert "status of 400" in page.console_errors()[0]
    page.js("window.fetch = () => Promise.reject(new TypeError('gone'))")
    page.js("[...document.querySelectorAll('.retry')].at(-1).click()")
    page.wait("document.body.innerText.includes(\"can't be reached\")")
    assert [turn.text for turn in page.driver.find_elements("css selector", ".turn.user .said")] == [QUESTION, "And 20 + 30?"]


# what the browser keeps


def test_a_reload_finds_the_conversation_and_the_settings(page, server):
    page.settings(effort="low", instructions="Be brief.")
    page.ask(QUESTION)
    shown = page.text("#turns")
    page.click("#new")
    page.ask("What is 2 + 2?")
    page.js("document.querySelectorAll('nav .open')[1].click()")
    assert page.text("#turns") == shown
    page.driver.refresh()
    page.wait("document.querySelectorAll('nav .open').length === 2")
    assert page.text("#turns") == shown
    assert page.text("nav [aria-current]") == QUESTION
    page.ask("And 20 + 30?")
    body = page.js("window.sent.at(-1)")
    assert body["reasoning_effort"] == "low" and body["messages"][0] == {"role": "system", "content": "Be brief."}
    page.click("nav li:first-child .delete")
    page.wait("document.querySelectorAll('nav .open').length === 1")
    assert page.text("#turns") == "" and page.find("#welcome").is_displayed()


def test_a_reload_in_the_middle_keeps_what_has_come(page):
    begin_endless_answer(page)
    begun = page.text(".answer")[:20]
    page.driver.refresh()
    page.wait("document.querySelector('.answer')?.innerText.startsWith(arguments[0])", begun)
    page.click("#stop")  # it goes on: test_page_resume.py
    page.wait_for_end()
    assert page.text(".answer").startswith(begun) and page.find("#send").is_displayed()


def test_a_conversation_is_copied_and_exported(page, server, tmp_path):
    page.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=True)
    page.ask(QUESTION)
    page.click(".turn.assistant .copy")
    page.wait("document.querySelector('.turn.assistant .copy').getAttribute('aria-label') === 'Copied'")
    assert page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])") == "17 + 25 = 42."
    page.exchange("#export-json")
    page.exchange("#export-markdown")
    files = [tmp_path / f"What-is-17-25.{ending}" for ending in ("json", "md")]
    browser.WebDriverWait(page.driver, 30).until(lambda _: all(file.exists() and file.stat().st_size for file in files))
    exported = json.loads(files[0].read_text())["conversations"][0]
    assert [message["content"] for message in exported["messages"]] == [QUESTION, "17 + 25 = 42."]
    assert files[1].read_text() == f"# {QUESTION}\n\n## You\n\n{QUESTION}\n\n## Answer\n\n17 + 25 = 42.\n"


def test_a_key_is_asked_for_and_kept_for_the_tab_only(chromium):
    asked = "document.getElementById('key-dialog').open"
    asked_again = asked + " && document.getElementById('key-fault').textContent !== ''"
    with serving("--api-key", "sesame") as locked:
        chromium.go(locked.url + "/")
        chromium.wait(asked)
        chromium.type("#key", "\N{LEFT DOUBLE QUOTATION MARK}sesame\N{RIGHT DOUBLE QUOTATION MARK}" + Keys.ENTER)
        chromium.wait(asked_again)
        chromium.type("#key", "wrong" + Keys.ENTER)
        chromium.wait(asked_again)
        chromium.type("#key", "sesame" + Keys.ENTER)
        chromium.wait("document.getElementById('model').textContent === 'tiny on cpu'")
        chromium.driver.refresh()
        chromium.wait("document.getElementById('model').textContent === 'tiny on cpu'")
        chromium.ask(QUESTION)
        assert chromium.last(".answer") != ""
        chromium.go(locked.url + "/status")
        chromium.wait("document.querySelectorAll('#kernels td').length > 0")
        assert "sesame" not in chromium.js("JSON.stringify(localStorage)")
        assert all("status of 401" in error for error in chromium.console_errors())
        assert all(url.startswith(locked.url) for url in chromium.requests())


def test_a_key_is_asked_for_once_for_all_tabs(chromium):
    driver, opened = chromium.driver, chromium.driver.current_window_handle
    model = "document.getElementById('model').textContent === 'tiny on cpu'"
    with serving("--api-key", "sesame") as locked:
        chromium.go(locked.url + "/")
        chromium.wait("document.getElementById('key-dialog').open")
        driver.switch_to.new_window("tab")
        second = driver.current_window_handle
        driver.get(locked.url + "/")
        chromium.wait("document.getElementById('key-dialog').open")
        chromium.type("#key", "wrong" + Keys.ENTER)
        chromium.wait("document.getElementById('key-fault').textContent !== ''")
        driver.switch_to.window(opened)
        assert chromium.js("document.getElementById('key-dialog').open")  # a wrong key is not given to other tabs
        driver.switch_to.window(second)
        chromium.type("#key", "sesame" + Keys.ENTER)
        chromium.wait(model)
        driver.switch_to.window(opened)
        chromium.wait(model)
        assert not chromium.js("document.getElementById('key-dialog').open")
        driver.switch_to.window(second)
        driver.get(locked.url + "/status")
        chromium.wait("document.querySelectorAll('#kernels td').length > 0")
        driver.switch_to.new_window("tab")
        driver.get(locked.url + "/")
        chromium.wait(model)
        assert not chromium.js("document.getElementById('key-dialog').open")
        assert "sesame" not in chromium.js("JSON.stringify(localStorage)")
        for handle in driver.window_handles:
            driver.switch_to.window(handle)
            if handle != opened:
                driver.close()
        driver.switch_to.window(opened)
        chromium.go(locked.url + "/page/base/icon.svg")  # no tab with the key is left
        chromium.js("sessionStorage.clear()")
        chromium.go(locked.url + "/")
        chromium.wait("document.getElementById('key-dialog').open")


def test_a_tab_whose_user_has_given_no_key_does_not_ask_for_it_each_time_it_is_shown(chromium):
    asked = "document.getElementById('key-dialog').open"
    model = "document.getElementById('model').textContent"
    with serving("--api-key", "sesame") as locked:
        chromium.go(locked.url + "/")
        chromium.wait(asked)
        chromium.click("#cancel-key")
        chromium.wait(f"{model}.includes('401')")
        chromium.js(
            """(window.isHidden = true, window.waits = false,
            Object.defineProperty(document, "hidden", {get: () => window.isHidden, configurable: true}),
            window.listen = document.addEventListener, document.addEventListener = function (type, ...rest) {
              window.waits ||= type === "visibilitychange";
              return window.listen.call(document, type, ...rest);
            }, 0)"""
        )
        show = f"({model} = '', window.waits = false, window.isHidden = false, document.dispatchEvent(new Event('visibilitychange')), 0)"
        chromium.wait("window.waits")
        chromium.js(show)
        chromium.wait(f"{model} !== '' || {asked}")
        assert not chromium.js(asked) and "401" in chromium.js(model)
        chromium.js("(sessionStorage.setItem('nibble.key', 'sesame'), window.isHidden = true, 0)")  # given for a message
        chromium.wait("window.waits")
        chromium.js(show)
        chromium.wait(f"{model} === 'tiny on cpu'")
        chromium.console_errors()  # of the status 401


# Markdown, and what it must not let through


@pytest.fixture(scope="module")
def any_page(chromium, server):
    """The page as the last test left it, for tests that change nothing."""
    chromium.go(server.url + "/")
    return chromium


RENDER = """
const [text, done] = arguments;
import("/page/reading/markdown.js").then(({renderMarkdown}) => {
  const element = document.createElement("div");
  renderMarkdown(element, text);
  for (const head of element.querySelectorAll(".code-head")) head.remove();
  done(element.innerHTML);
});
"""


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a *b* **c** ***d*** ~~e~~ `f*` __g__ h_i_j", "<p dir=\"auto\">a <em>b</em> <strong>c</strong> <strong><em>d</em></strong> <del>e</del> <code>f*</code> <strong>g</strong> h_i_j</p>"),
        ("2 * 3 * 4, **open, \\*plain\\*", "<p dir=\"auto\">2 * 3 * 4, **open, *plain*</p>"),
        ("# A\n## B ##\ntext\nmore  \nline", '<h3 class="level1" dir="auto">A</h3><h3 class="level2" dir="auto">B</h3><p dir="auto">text\nmore<br>line</p>'),
        ("```py\n<b>\n\n```\nafter", '<div class="code" dir="ltr"><pre tabindex="0"><code>&lt;b&gt;\n</code></pre></div><p dir="auto">after</p>'),
        ("```\nopen", '<div class="code" dir="ltr"><pre tabindex="0"><code>open</code></pre></div>'),
        ("- a\n- b\n  - c\n\n  d\n3. e", "<ul dir=\"auto\"><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul><p>d</p></li></ul><ol start=\"3\" dir=\"auto\"><li><p>e</p></li></ol>"),
        ("> a\n> > b\n\n---", '<blockquote dir="auto"><p>a</p><blockquote><p>b</p></blockquote></blockquote><hr dir="auto">'),
        (
            "|a|b|\n|---|--:|\n|*c*|d \\| e<br>f|",
            '<div class="wide" tabindex="0" dir="auto"><table><thead><tr><th>a</th><th class="right">b</th></tr></thead>'
            '<tbody><tr><td><em>c</em></td><td class="right">d | e<br>f</td></tr></tbody></table></div>',
        ),
        (
            "[x](https://a.example/b_(c)) https://d.example/.",
            '<p dir="auto"><a href="https://a.example/b_(c)" target="_blank" rel="noopener noreferrer">x</a> '
            '<a href="https://d.example/" target="_blank" rel="noopener noreferrer">https://d.example/</a>.</p>',
        ),
        ("<img src=x onerror=alert(1)><script>alert(1)</script>", "<p dir=\"auto\">&lt;img src=x onerror=alert(1)&gt;&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
        ("[x](javascript:alert(1)) [y](data:text/html,z) [z](/v1)", "<p dir=\"auto\">[x](javascript:alert(1)) [y](data:text/html,z) [z](/v1)</p>"),
        (
            "(see https://a.example/b_(c)). **https://d.example/e_(f)!**",
            '<p dir="auto">(see <a href="https://a.example/b_(c)" target="_blank" rel="noopener noreferrer">https://a.example/b_(c)</a>). '
            '<strong><a href="https://d.example/e_(f)" target="_blank" rel="noopener noreferrer">https://d.example/e_(f)</a>!</strong></p>',
        ),
        ("https://a.example/" + "b" * 2000, '<p dir="auto">https://a.example/' + "b" * 2000 + "</p>"),
        (
            "![x](https://a.example/?secret)",
            '<p dir="auto"><a href="https://a.example/?secret" target="_blank" rel="noopener noreferrer">picture: x</a></p>',
        ),
        ("\\(a_1 \\[x", "<p dir=\"auto\">\\(a_1 \\[x</p>"),
    ],
)
def test_markdown_becomes_elements_and_html_stays_text(any_page, text, shown):
    assert any_page.driver.execute_async_script(RENDER, text) == shown


def test_the_time_of_hostile_markdown_grows_with_its_length(page):
    # With quadratic time, or recursion per level, this would not end.
    parts = ["*", "**a", "_a ", "`", "` ``", "[", "[a](", "> ", "- ", "|", "|-", "~", "# ", "http://", "<br", "\\", "1. a\n\n", " ", "\n", "$", "$$", "$a", "$a ", "\\(", "\\[a", "\\[\n", "$$\n", "](", "```\n", "[^1]: ", "[^a]", "- [x] ", "` `` $a$ "]
    for part in parts:
        assert page.driver.execute_async_script(RENDER, part * (100_000 // len(part)) + "x`") is not None, part


def test_nothing_runs_and_nothing_is_loaded_from_elsewhere(page, server):
    assert page.driver.execute_async_script(
        """
        const done = arguments[0], blocked = [];
        document.addEventListener("securitypolicyviolation", (event) => {
          blocked.push(event.effectiveDirective);
          if (blocked.length === 3) done(blocked.sort());
        });
        const script = document.createElement("script");
        script.append("window.ran = true");
        document.body.append(script);
        const picture = document.createElement("img");
        picture.src = "https://elsewhere.example/?secret";
        try { document.createElement("div").innerHTML = "<b>"; } catch {}
        """
    ) == ["img-src", "require-trusted-types-for", "require-trusted-types-for"]
    assert page.js("window.ran") is None
    assert all("blocked" in error or "violates" in error or "Trusted" in error for error in page.console_errors())


# accessibility


def violations(page, scheme, width):
    """Returns the violations that axe finds in this theme and at this width."""
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.command("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    if not page.js("'axe' in window"):
        page.command("Runtime.evaluate", expression=AXE)
    found = page.driver.execute_async_script("axe.run().then(({violations}) => arguments[0](violations), (error) => arguments[0]([String(error)]))")
    page.command("Emulation.clearDeviceMetricsOverride")
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(page, server, scheme):
    page.settings(tools=json.dumps(TOOLS))
    page.ask("What is the weather in Oslo?")
    page.js("document.querySelector('.reasoning').open = true")
    page.driver.execute_async_script(
        """
        const done = arguments[0];
        import("/page/reading/markdown.js").then(({renderMarkdown}) => {
          renderMarkdown(document.querySelector(".answer"), "# A\\n[x](https://a.example) `b`\\n\\n|a|b|\\n|-|-|\\n|c|d|\\n\\n> e\\n\\n1. f\\n\\n- [x] done[^1]\\n\\n$\\\\frac{a}{b}$\\n\\n```py\\n# g\\nimport os\\ndef f(x: int) -> str:\\n    return \\"a\\" + 1\\n```\\n\\n[^1]: note");
          done();
        });
        """
    )
    page.js("document.querySelector('.edit').click()")
    assert violations(page, scheme, 1000) == []
    if scheme == "dark":
        return  # other tests differ only in colours, which were all checked
    assert violations(page, scheme, 390) == []
    for opener, dialog in (("#open-settings", "#settings"), ("#open-shortcuts", "#shortcuts")):
        page.click(opener)
        assert violations(page, scheme, 1000) == []
        page.press(Keys.ESCAPE)
        page.wait(f"!document.querySelector('{dialog}').open")
    page.go(server.url + "/status")
    page.wait("document.querySelectorAll('.chart figcaption')[0].textContent !== ''")
    assert violations(page, scheme, 390) == []
    page.js("document.body.append(document.createElement('button'))")
    assert [rule for rule, _ in violations(page, scheme, 1000)] == ["button-name"]  # proves that axe checks


def test_a_screen_reader_is_told_the_answer_once(page):
    page.js("(window.said = [], new MutationObserver(() => said.push(document.getElementById('live').textContent)).observe(document.getElementById('live'), {childList: true}))")
    page.ask(QUESTION)
    page.wait("window.said.length === 2")
    assert page.js("window.said") == ["Answering", "Answer: 17 + 25 = 42."]


def test_the_keyboard_does_everything(page):
    page.ask(QUESTION)
    page.press(Keys.ARROW_UP)
    assert page.driver.switch_to.active_element.get_attribute("aria-label") == "Edit your message"
    page.press(Keys.ESCAPE)
    page.press(Keys.ALT, "r")
    page.wait("window.sent.length === 2")
    page.wait_for_end()
    page.press(Keys.ALT, ",")
    assert page.find("#settings").is_displayed()
    page.press(Keys.ESCAPE)
    page.press(Keys.ALT, "k")
    assert page.find("#shortcuts").is_displayed()
    page.press(Keys.ENTER)  # presses the dialog's button
    page.press(Keys.ALT, "n")
    assert page.find("#welcome").is_displayed()
    assert page.driver.switch_to.active_element.get_attribute("id") == "input"
    page.type("#input", "one" + Keys.SHIFT + Keys.ENTER + Keys.NULL + "two")
    assert page.js("document.getElementById('input').value") == "one\ntwo"


def test_a_phone_shows_one_thing_at_a_time(page):
    page.ask(QUESTION)
    page.command("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    assert page.js("document.documentElement.scrollWidth") <= 390
    assert page.find("#turns").is_displayed() and not page.find("nav").is_displayed()
    page.click("#toggle-list")
    assert page.find("nav").is_displayed() and not page.find("#turns").is_displayed()
    assert page.find("#toggle-list").get_attribute("aria-expanded") == "true"
    page.click("nav .open")
    assert page.find("#turns").is_displayed()
    page.command("Emulation.clearDeviceMetricsOverride")


@contextlib.contextmanager
def phone(page):
    """The page on a phone: 390 pixels wide, with touch instead of a mouse."""
    page.command("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    page.command("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        yield
    finally:
        page.command("Emulation.setTouchEmulationEnabled", enabled=False)
        page.command("Emulation.clearDeviceMetricsOverride")


SMALL = """[...document.querySelectorAll("button:not(.reference), select, input, textarea, summary, header a")].filter((target) => {
  const {width, height} = target.getBoundingClientRect();
  return target.checkVisibility() && !target.matches(".skip") && (width < 44 || height < 44);
}).map((target) => target.outerHTML)"""


def test_every_target_on_a_phone_has_44_pixels(page):
    page.ask(QUESTION)
    with phone(page):
        page.js("document.querySelector('.retry').click()")
        page.wait("window.sent.length === 2")
        page.wait_for_end()
        page.js("document.querySelector('.info').click()")
        assert page.js(SMALL) == []
        assert page.js("[...document.querySelectorAll('.actions')].every((actions) => getComputedStyle(actions).opacity === '1')")
        page.click("#toggle-list")
        assert page.js(SMALL) == []
        page.click("#toggle-list")
        page.click("#open-settings")
        assert page.js(SMALL) == []
        page.press(Keys.ESCAPE)
        page.js("document.querySelector('.edit').click()")
        assert page.js(SMALL) == [] and page.js("document.documentElement.scrollWidth") <= 390
        assert page.js(SMALL.replace("44", "4400")) != []  # shows that the check finds small targets


def test_enter_on_a_touch_screen_makes_a_new_line(page):
    assert page.find("#input").get_attribute("enterkeyhint") == "send"
    with phone(page):
        page.wait("document.getElementById('input').enterKeyHint === 'enter'")
        page.type("#input", "one" + Keys.ENTER + "two")
        assert page.js("document.getElementById('input').value") == "one\ntwo"
        page.click("#send")
        page.wait("window.sent.length === 1")
        page.wait_for_end()
    page.wait("document.getElementById('input').enterKeyHint === 'send'")


def test_actions_are_icons_that_hover_and_focus_show(server):
    with browser.chromium(flags=[browser.kMouse]) as page:
        page.go(server.url + "/")
        page.wait_for_end()
        page.ask(QUESTION)
        opacity = "getComputedStyle(document.querySelector('.turn.assistant .actions')).opacity"
        for selector, shown in ((".turn.user .said", "0"), (".turn.assistant .answer", "1"), (".turn.user .said", "0")):
            browser.webdriver.ActionChains(page.driver).move_to_element(page.find(selector)).perform()
            page.wait(f"{opacity} === '{shown}'")
        assert violations(page, "light", 1000) == []
        page.js("document.querySelector('.turn.assistant .retry').focus()")
        page.wait(f"{opacity} === '1'")
        in_list = "getComputedStyle(document.querySelector('nav .rename')).opacity"
        for selector, shown in (("#turns", "0"), ("nav .open", "1"), ("#turns", "0")):
            browser.webdriver.ActionChains(page.driver).move_to_element(page.find(selector)).perform()
            page.wait(f"{in_list} === '{shown}'")
        page.js("document.querySelector('nav .open').focus()")
        page.press(Keys.TAB)
        page.wait(f"{in_list} === '1'")
        assert page.js("document.activeElement.className.includes('pin')")
        names = "[...document.querySelectorAll('.actions button')].map((button) => [button.getAttribute('aria-label'), button.title, button.innerText])"
        assert page.js(names) == [[name, name, ""] for name in ("Copy this message", "Edit this message", "Copy this answer", "Retry", "Edit this answer", "Statistics")]


def test_statistics_are_shown_on_demand(page):
    page.ask(QUESTION)
    assert not page.find(".numbers").is_displayed()
    page.click(".info")
    assert page.find(".numbers").is_displayed() and page.find(".info").get_attribute("aria-expanded") == "true"
    page.click(".info")
    assert not page.find(".numbers").is_displayed()


def test_the_theme_can_be_chosen(page):
    def back():
        return page.js("getComputedStyle(document.body).backgroundColor")

    assert back() == "rgb(255, 255, 255)"
    page.settings(theme="dark")
    assert back() == "rgb(21, 24, 28)"
    page.driver.refresh()
    assert back() == "rgb(21, 24, 28)"


# status


def test_the_status_shows_what_runs_and_how_it_was_set_up(page, server):
    endless = server.post("/v1/completions", {**ENDLESS, "stream": True})
    first_event(endless)
    page.go(server.url + "/status")
    page.wait("document.querySelectorAll('#answers tbody tr').length === 1")
    page.wait("document.querySelector('.chart polyline').getAttribute('points')?.split(' ').length >= 2")
    speed = re.match(r"answers ([\d,]+), prompts \(dashed\) [\d,]+; highest [\d,]+", page.text(".chart figcaption"))
    assert int(speed[1].replace(",", "")) > 0
    said = page.text("#summary")
    assert "The server is ready. It runs tiny on the CPU (" in said and "1 answer is being written, and no requests wait." in said
    assert "records/" not in page.text("main") and "docs/" not in page.text("main")
    facts = dict(zip(page.js("[...document.querySelectorAll('dt')].map((item) => item.textContent)"), page.js("[...document.querySelectorAll('dd')].map((item) => item.textContent)")))
    assert facts["running"] == "1" and int(facts["steps"].replace(",", "")) > 20 and facts["faults"] == "0"
    kernels = page.js("[...document.querySelectorAll('#kernels tbody tr')].map((row) => row.innerText.split('\\t'))")
    assert {"embed", "attend", "experts up"} <= {row[0] for row in kernels} and all(row[4] and row[5] for row in kernels)
    memory = page.js("[...document.querySelectorAll('#memory tbody tr')].map((row) => row.innerText.split('\\t'))")
    assert [row[0] for row in memory] == ["weights", "weights in the backend's layout", "KV cache", "workspace", "total", "left free at the start"]
    assert all(re.fullmatch(r"[\d.]+ [kMG]?B", row[1]) for row in memory)
    endless.close()
    page.wait("document.querySelector('#now dd').textContent === '0'")
    # The newest request is the cancelled one. Its status is 499, and it reached all stages.
    page.wait("document.querySelector('#requests tbody td')?.textContent === '499'")
    cancelled = page.js("[...document.querySelector('#requests tbody tr').cells].map((cell) => cell.textContent)")
    stages = [float(text) for text in cancelled[4:]]
    assert len(stages) == 7 and stages[:4] == sorted(stages[:4])
