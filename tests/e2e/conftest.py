"""Puts the files that take longest first, so that no process of pytest-xdist (tools/end_to_end) is left with one of them."""

# Files that take half a minute or more, longest first.
LONG = (
    "test_package",
    "test_page_tools",
    "test_cli",
    "test_quantised_checkpoints",
    "test_experts",
    "test_tokenizer",
    "test_page_storage",
    "test_page_long",
    "test_page_closing",
    "test_page_loading",
    "test_page",
    "test_page_actions",
    "test_page_resume",
    "test_page_takeover",
    "test_page_reading",
    "test_openai2",
    "test_gguf",
    "test_page_versions",
    "test_page_composer",
    "test_harmony",
)
PLACES = {name: place for place, name in enumerate(LONG)}


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: PLACES.get(item.path.stem, len(LONG)))  # stable: a file's tests keep their order
