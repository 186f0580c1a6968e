"""Tests in headless Chromium of what reaches the page by mouse: dropped files."""

import pytest

from test_page import chromium, page, server  # noqa: F401: fixtures


@pytest.mark.parametrize("place", ["header", "#list", "#log"])
def test_a_file_that_is_dropped_anywhere_is_attached(page, place):
    taken = page.js(
        """((place) => {
          const data = new DataTransfer();
          data.items.add(new File(["one\\n"], "a.txt"));
          const event = (type) => new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true});
          return ["dragover", "drop"].map((type) => !document.querySelector(place).dispatchEvent(event(type)));
        })(arguments[0])""",
        place,
    )
    assert taken == [True, True]  # else the browser leaves the page, and opens the file
    page.wait("document.querySelector('.file')?.innerText.startsWith('a.txt')")
    page.js("document.querySelector('.file [aria-label]').click()")
