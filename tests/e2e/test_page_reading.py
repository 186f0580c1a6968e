"""Tests in headless Chromium how answers are shown: formulas, coloured code, tables, task lists, footnotes, text from
right to left, and printed conversations."""

import base64
import re

import browser
import pytest
from selenium.webdriver.common.keys import Keys

from test_page import QUESTION, RENDER, any_page, chromium, page, server  # noqa: F401: fixtures

# Renders Markdown into the page, and waits for the libraries.
SHOW = """
const [text, done] = arguments;
Promise.all(["markdown", "katex", "highlight"].map((name) => import(`/page/reading/${name}.js`))).then(([{renderMarkdown}]) => {
  document.querySelector(".turn:has(#shown)")?.remove();
  const element = document.createElement("div");
  element.className = "answer";
  element.id = "shown";
  const turn = document.createElement("article");
  turn.className = "turn";
  turn.append(element);
  document.getElementById("turns").append(turn);
  renderMarkdown(element, text);
  setTimeout(done, 20);
});
"""


def show(page, text, script):
    """Returns the value of an expression of `element`, which has the rendered text."""
    page.driver.execute_async_script(SHOW, text)
    return page.js(f"((element) => {script})(document.getElementById('shown'))")


SOURCES = "[...element.querySelectorAll('.math')].map((formula) => formula.querySelector('math') ? formula.dataset.source : 'not shown: ' + formula.textContent)"


# formulas


@pytest.mark.parametrize(
    "text, formulas",
    [
        ("Let $x_1*y_2*z$ be $\\alpha$.", ["$x_1*y_2*z$", "$\\alpha$"]),
        ("$$\na\\\\\nb\n$$", ["$$\na\\\\\nb\n$$"]),
        ("so \\(a_b\\) and\n\\[\n- x\n+ y_1*z*\n\\]\nholds", ["\\(a_b\\)", "\\[\n- x\n+ y_1*z*\n\\]"]),
        ("1. one\n   $$\n   \\sum_{i=1}^n i\n   $$\n2. two", ["$$\n   \\sum_{i=1}^n i\n   $$"]),
        ("> $$\n> x > y\n> $$", ["$$\n x > y\n $$"]),
        ("| a | b |\n|---|---|\n| $|x|$ | **$y$** |", ["$|x|$", "$y$"]),
        ("# Of $n$\n\n*in $a*b$ emphasis*", ["$n$", "$a*b$"]),
        ("$$\\begin{aligned} a &= b \\\\ &= c \\end{aligned}$$", ["$$\\begin{aligned} a &= b \\\\ &= c \\end{aligned}$$"]),
        # These are not formulas: prices, code, addresses, escapes, and incomplete formulas.
        ("It costs $5 and $10, or US$7 to A$9, $20-$30, \\$x\\$.", []),
        ("`$x$` ``a`$y$`` [b](https://a.example/$z$)\n\n```\n$w$ \\(v\\)\n```\nhttps://a.example/$u$", []),
        ("- ```\n  $x$\n  ```\n> ~~~\n> $y$\n> ~~~", []),
        ("$$ a\n\nb and $ c $ and \\[ d", []),
    ],
)
def test_formulas_are_found_as_they_were_written(any_page, text, formulas):
    assert show(any_page, text, SOURCES) == formulas


def test_a_formula_becomes_mathml(any_page):
    assert show(any_page, "$\\frac{a}{b}$", "element.innerHTML") == (
        '<p dir="auto"><span class="math" data-source="$\\frac{a}{b}$" dir="ltr"><math><mrow><mfrac><mi>a</mi><mi>b</mi></mfrac></mrow></math></span></p>'
    )
    width = "element.querySelector('mfrac').getBoundingClientRect().height > 1.5 * element.querySelector('mi').getBoundingClientRect().height"
    assert show(any_page, "$\\frac{a}{b}$", width)  # drawn as a fraction, not as text
    assert show(any_page, "\\[x\\]", "element.querySelector('math').getAttribute('display')") == "block"


def test_columns_of_a_formula_are_aligned(any_page):
    # The places of the four cells' contents: those before the signs end at the same place, those after them begin at the same.
    places = "[...element.querySelectorAll('mtd > :first-child')].map((inner) => inner.getBoundingClientRect()).map(({left, right}) => [left, right])"
    first, second, third, fourth = show(any_page, "$$\\begin{aligned} a + b + c &= d \\\\ a &= b + c + d \\end{aligned}$$", places)
    assert abs(first[1] - third[1]) < 1 and abs(second[0] - fourth[0]) < 1
    assert third[0] - first[0] > 20  # of different widths, so that the test can fail
    left, _, narrow, _ = show(any_page, "$$\\begin{pmatrix} a + b + c & 1 \\\\ a & 1 \\end{pmatrix}$$", places)
    assert abs((left[0] + left[1]) - (narrow[0] + narrow[1])) < 2  # centred


def test_a_wrong_formula_shows_its_source(any_page):
    assert show(any_page, "$\\frac{a$ and $\\unknown{x}$ and $y$", "element.textContent") == "$\\frac{a$ and $\\unknown{x}$ and y"


def test_code_and_addresses_keep_their_dollars(any_page):
    assert show(any_page, "```sh\necho $a$ \\(b\\)\n```", "element.querySelector('pre').textContent") == "echo $a$ \\(b\\)"
    assert show(any_page, "`$a$` `\\(b\\)`", "element.textContent") == "$a$ \\(b\\)"
    assert show(any_page, "https://a.example/$x$", "element.querySelector('a').href") == "https://a.example/$x$"


HOSTILE = [
    "\\href{javascript:alert(1)}{x}",
    "\\url{https://a.example/}",
    "\\includegraphics{https://a.example/?secret}",
    "\\htmlClass{a}{x} \\htmlId{input}{x} \\htmlStyle{position:fixed}{x} \\htmlData{a=b}{x}",
    "\\fcolorbox{red;background:url(https://a.example)}{blue}{x}",
    "\\text{<img src=x onerror=alert(1)><script>alert(1)</script>}",
    "<math><mtext></mtext><script>alert(1)</script></math>",
    "\\color{url(https://a.example)} x",
    "\\def\\a{\\a\\a}\\a",
    "\\def\\a#1{\\b{#1#1}}\\def\\b#1{\\a{#1#1}}\\a{x}",
    "{" * 2000 + "}" * 2000,
    "x^" * 1000 + "y",
    "\\rule{99999em}{99999em}",
    "\\tag{<b>} x",
]
SAFE = """[...element.querySelectorAll('*')].flatMap((node) => [
  ...(['P', 'SPAN', 'A'].includes(node.tagName) || node.namespaceURI.endsWith('MathML') ? [] : [node.outerHTML]),
  ...[...node.attributes].filter(({name, value}) => /^on|^(src|style|id|name|xlink:href)$/.test(name) || (name === 'href' && !value.startsWith('https:'))).map(({name}) => name),
])
"""


@pytest.mark.parametrize("formula", HOSTILE)
def test_no_formula_becomes_a_link_a_style_or_a_script(page, formula):
    for text in (f"${formula}$", f"$${formula}$$", f"\\({formula}\\)", f"\\[{formula}\\]"):
        assert show(page, text, SAFE) == [], text
    assert page.js("window.innerWidth >= document.documentElement.scrollWidth")


def test_formulas_are_copied_as_their_source(page):
    text = "Let $x_1$ be **small**.\n\n$$\ny^2\n$$\n\nEnd."
    show(page, text, "0")
    copied = """(() => {
      const data = new DataTransfer(), element = document.getElementById("shown");
      getSelection().selectAllChildren(element);
      document.dispatchEvent(new ClipboardEvent("copy", {clipboardData: data, cancelable: true, bubbles: true}));
      return data.getData("text/plain");
    })()"""
    assert page.js(copied) == "Let $x_1$ be small.\n\n$$\ny^2\n$$\n\nEnd."
    show(page, "No formula.", "0")
    assert page.js(copied) == ""  # a copy that the browser handles


def test_katex_is_loaded_only_for_a_formula(page):
    loaded = "performance.getEntriesByType('resource').some(({name}) => name.endsWith('katex.js'))"
    page.ask(QUESTION)
    assert not page.js(loaded)
    page.driver.execute_async_script(RENDER, "$x$")
    page.wait(loaded)


# coloured code

CODE = "def f(x):\n    # it's <b> & \"c\"\n    return x + 1\n"


def test_code_is_coloured_and_stays_the_same(page):
    colours = "[...element.querySelectorAll('code span')].map((part) => [part.className, part.textContent])"
    shown = show(page, f"```python\n{CODE}```", colours)
    assert ["hljs-keyword", "def"] in shown and ["hljs-comment", "# it's <b> & \"c\""] in shown
    assert show(page, f"```python\n{CODE}```", "element.querySelector('code').textContent") + "\n" == CODE
    for text in (f"```python\n{CODE}", f"```\n{CODE}```", f"```unknown\n{CODE}```"):  # not complete, no language, an unknown one
        assert show(page, text, "element.querySelectorAll('code span').length") == 0


@pytest.mark.parametrize("language", ["html", "xml", "js", "python", "markdown", "json", "bash", "php", "sql", "tex"])
def test_no_code_becomes_markup(page, language):
    code = "<img src=x onerror=alert(1)><script>alert(1)</script> &lt;b&gt; '\"> </span> <span class=\"x\" onclick=\"a\"> $(a) {{b}} <!-- c --> <?php d ?>"
    tags = "[...element.querySelectorAll('code *')].filter((part) => part.tagName !== 'SPAN' || part.attributes.length > 1 || !/^(hljs-[a-z_-]+)?$/.test(part.className)).length"
    assert show(page, f"```{language}\n{code}\n```", tags) == 0
    assert show(page, f"```{language}\n{code}\n```", "element.querySelector('code').textContent") == code


def test_marked_text_is_only_ever_spans(page):
    made = """
    const [marked, done] = arguments;
    import("/page/reading/code.js").then(({elementsOf}) => done(elementsOf(marked).innerHTML));
    """
    for marked, shown in (
        ('<span class="hljs-a">&lt;b&gt;</span>&amp;', '<span class="hljs-a">&lt;b&gt;</span>&amp;'),
        ('<span class="x"><img src=x></span></span>', "<span>&lt;img src=x&gt;</span>"),
        ('<span class="hljs-a" onclick="b">c', '&lt;span class="hljs-a" onclick="b"&gt;c'),
    ):
        assert page.driver.execute_async_script(made, marked) == shown


def test_highlight_js_is_loaded_only_for_code(page):
    loaded = "performance.getEntriesByType('resource').some(({name}) => name.endsWith('highlight.js'))"
    page.ask(QUESTION)
    assert not page.js(loaded)
    page.driver.execute_async_script(RENDER, "```py\nx\n```")
    page.wait(loaded)


def test_code_can_be_wrapped_and_downloaded(page, tmp_path):
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path), eventsEnabled=True)
    show(page, f"```python\n{CODE}{'x = 1; ' * 100}\n```", "0")
    assert page.js("document.querySelector('#shown pre').scrollWidth > document.querySelector('#shown pre').clientWidth")
    page.click("#shown .code-head button[aria-pressed]")
    assert page.js("document.querySelector('#shown pre').scrollWidth === document.querySelector('#shown pre').clientWidth")
    assert page.find("#shown .code-head button").get_attribute("aria-pressed") == "true"
    page.click("#shown [aria-label='Download this python']")
    file = tmp_path / "code.py"
    browser.WebDriverWait(page.driver, 30).until(lambda _: file.exists() and file.stat().st_size)
    assert file.read_text().startswith(CODE)


# tables, tasks, footnotes, direction


def test_a_table_scrolls_on_a_phone_and_breaks_no_word(page):
    page.command("Emulation.setDeviceMetricsOverride", width=320, height=800, deviceScaleFactor=1, mobile=True)
    head = "|" + "Donaudampfschifffahrt|" * 5
    show(page, f"{head}\n{'|---' * 5}|\n{head}", "0")
    assert page.js("document.documentElement.scrollWidth") <= 320
    assert page.js("document.querySelector('#shown .wide').scrollWidth > 320")
    assert page.js("new Set([...document.querySelectorAll('#shown th, #shown td')].map((cell) => cell.clientHeight)).size === 1")
    assert page.js("document.querySelector('#shown td').clientHeight < 40")  # one line
    page.command("Emulation.clearDeviceMetricsOverride")


def test_tasks_show_their_state(any_page):
    tasks = "[...element.querySelectorAll('.task')].map((item) => [item.querySelector('.box').getAttribute('aria-label'), item.querySelector('p').textContent])"
    assert show(any_page, "- [ ] open *one*\n- [x] done\n- [y] none\n1. [X] first", tasks) == [["To do:", "open one"], ["Done:", "done"], ["Done:", "first"]]


def test_footnotes_lead_to_their_text_and_back(page):
    text = "A claim[^1], another[^b], none[^2] and `[^1]`.\n\n[^1]: The *source*\n  of it.\n[^b]: Other."
    assert show(page, text, "[...element.querySelectorAll('[data-reference]')].map((link) => link.textContent)") == ["1", "b"]
    assert page.js("document.querySelector('#shown p').textContent") == "A claim1, anotherb, none[^2] and [^1]."
    page.click("#shown [data-reference='1']")
    assert page.js("document.activeElement.innerText") == "1 The source of it. \u21a9"
    page.click("#shown .footnote .reference")
    assert page.js("document.activeElement.dataset.reference") == "1"


def test_text_from_right_to_left_begins_at_the_right(page):
    directions = "[...element.children].map((block) => getComputedStyle(block).direction)"
    hebrew = "\u05e9\u05dc\u05d5\u05dd"
    assert show(page, f"{hebrew}\n\nHello\n\n- {hebrew} *a*\n\n> {hebrew}\n\n```\n{hebrew}\n```", directions) == ["rtl", "ltr", "rtl", "rtl", "ltr"]
    page.fill("#input", hebrew)
    assert page.js("getComputedStyle(document.getElementById('input')).direction") == "rtl"


# Distances in sizes of the font: of a subscript below its line, of a superscript above it.
SCRIPTS = """((font) => {
  if (font) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`.math math { font-family: ${font} !important; }`);
    document.adoptedStyleSheets = [sheet];
  }
  return import("/page/reading/math_font.js").then(({checkMathFont}) => {
    checkMathFont();
    const lines = [...document.querySelectorAll("#shown mi, #shown mn")].map((glyph) => {
      const space = document.createElementNS(glyph.namespaceURI, "mspace"), row = document.createElementNS(glyph.namespaceURI, "mrow");
      for (const name of ["width", "height", "depth"]) space.setAttribute(name, "0px");
      glyph.replaceWith(row);
      row.append(glyph, space);
      return space;
    }).map((space) => space.getBoundingClientRect().bottom);
    const size = parseFloat(getComputedStyle(document.querySelector("#shown math")).fontSize);
    document.adoptedStyleSheets = [];
    return [(lines[1] - lines[0]) / size, (lines[2] - lines[3]) / size, document.documentElement.classList.contains("no-math-font")];
  });
})(arguments[0])"""


@pytest.mark.parametrize("font", ["", "DejaVu Sans"])  # a font with a table of mathematics, and one without
def test_scripts_stand_below_and_above_their_line_with_any_font(page, font):
    show(page, "$x_1 y^2$", "0")
    page.wait("document.querySelector('#shown msup') !== null")
    below, above, is_corrected = page.js(SCRIPTS, font)
    assert 0.12 < below < 0.4 and 0.25 < above < 0.55
    assert is_corrected or font == ""


def printed_pages(page):
    """Prints the page; returns the number of sheets."""
    document = base64.b64decode(page.command("Page.printToPDF")["data"])
    return len(re.findall(rb"/Type\s*/Page\b", document))


def test_all_of_a_conversation_is_printed_and_nothing_else(page):
    for _ in range(3):
        page.fill("#input", "A long line.\n" * 40)
        page.type("#input", Keys.ENTER)
        page.wait_for_end()
    assert printed_pages(page) >= 3  # of 120 lines and three answers
    page.command("Emulation.setEmulatedMedia", media="print")
    shown = "[...document.querySelectorAll(arguments[0])].filter((part) => part.checkVisibility()).length"
    for part in ("header", "nav", "#composer", ".turn .actions"):
        assert page.js(shown, part) == 0, part
    assert page.js(shown, ".turn") == 6 and page.js("[...document.querySelectorAll('.turn h2')].every((name) => name.offsetWidth > 1)")
    page.command("Emulation.setEmulatedMedia", media="")
