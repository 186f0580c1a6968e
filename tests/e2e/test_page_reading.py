"""Tests in headless Chromium how answers are shown: formulas, coloured code, tables, task lists, footnotes, and text from
right to left."""

import pytest

from test_page import QUESTION, RENDER, any_page, chromium, page, server  # noqa: F401: fixtures

# Renders Markdown into the page, and waits for the libraries.
SHOW = """
const [text, done] = arguments;
Promise.all(["markdown", "katex"].map((name) => import(`./page/${name}.js`))).then(([{renderMarkdown}]) => {
  document.getElementById("shown")?.remove();
  const element = document.createElement("div");
  element.className = "answer";
  element.id = "shown";
  document.getElementById("turns").append(element);
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
        # Not formulas: prices, code, addresses, escapes, and what is not complete.
        ("It costs $5 and $10, or US$7 to A$9, $20-$30, \\$x\\$.", []),
        ("`$x$` ``a`$y$`` [b](https://a.example/$z$)\n\n```\n$w$ \\(v\\)\n```\nhttps://a.example/$u$", []),
        ("- ```\n  $x$\n  ```\n> ~~~\n> $y$\n> ~~~", []),
        ("$$ a\n\nb and $ c $ and \\[ d", []),
    ],
)
def test_formulas_are_found_as_they_were_written(any_page, text, formulas):
    assert show(any_page, text, SOURCES) == formulas


def test_a_formula_becomes_mathml(any_page):
    assert show(any_page, "$\\frac{a}{b}$", "element.innerHTML").replace(' dir="auto"', "") == (
        '<p><span class="math" data-source="$\\frac{a}{b}$" dir="ltr"><math><mrow><mfrac><mi>a</mi><mi>b</mi></mfrac></mrow></math></span></p>'
    )
    width = "element.querySelector('mfrac').getBoundingClientRect().height > 1.5 * element.querySelector('mi').getBoundingClientRect().height"
    assert show(any_page, "$\\frac{a}{b}$", width)  # drawn as a fraction, not as text
    assert show(any_page, "\\[x\\]", "element.querySelector('math').getAttribute('display')") == "block"
    sides = "[...element.querySelectorAll('mtd')].map((cell) => getComputedStyle(cell).textAlign)"
    assert show(any_page, "$$\\begin{aligned} a &= b \\end{aligned}$$", sides) == ["right", "left"]


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
    assert page.js(copied) == ""  # left to the browser


def test_katex_is_loaded_only_for_a_formula(page):
    loaded = "performance.getEntriesByType('resource').some(({name}) => name.endsWith('katex.js'))"
    page.ask(QUESTION)
    assert not page.js(loaded)
    page.driver.execute_async_script(RENDER, "$x$")
    page.wait(loaded)
