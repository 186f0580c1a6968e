"""Tests the limits of one request, and the prefix it shares with others, in every API."""

import json
import urllib.request

import pytest

from test_serve import QUESTION, serving

MOST = 8
TEXT = "It was a dark and stormy night, and the rain fell in torrents, except at occasional intervals. " * 4
# By API: path, a request for more tokens than allowed, a function that returns an answer's (output tokens,
# finish reason), and the finish reason of a cut-off answer.
APIS = {
    "chat": ("/v1/chat/completions", {"messages": QUESTION, "max_completion_tokens": 4000, "temperature": 0}, lambda a: (a["usage"]["completion_tokens"], a["choices"][0]["finish_reason"]), "length"),
    "completions": ("/v1/completions", {"prompt": "It was a", "max_tokens": 4000, "temperature": 0}, lambda a: (a["usage"]["completion_tokens"], a["choices"][0]["finish_reason"]), "length"),
    "responses": ("/v1/responses", {"input": "What is 17 + 25?", "max_output_tokens": 4000, "temperature": 0}, lambda a: (a["usage"]["output_tokens"], a["incomplete_details"]["reason"]), "max_output_tokens"),
    "messages": ("/v1/messages", {"messages": QUESTION, "max_tokens": 4000, "temperature": 0}, lambda a: (a["usage"]["output_tokens"], a["stop_reason"]), "max_tokens"),
    "ollama": ("/api/chat", {"model": "tiny", "messages": QUESTION, "stream": False, "options": {"num_predict": 4000, "temperature": 0}}, lambda a: (a["eval_count"], a["done_reason"]), "length"),
}


@pytest.fixture(scope="module")
def server():
    with serving("--max-output-tokens", MOST) as running:
        yield running


def ask(server, path, body):
    """Returns the answer as JSON, and its headers."""
    request = urllib.request.Request(server.url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply), reply.headers


@pytest.mark.parametrize("api", APIS)
def test_an_answer_has_at_most_the_tokens_that_the_server_allows(server, api):
    path, body, ending, cut = APIS[api]
    answer, headers = ask(server, path, body)
    assert ending(answer) == (MOST, cut)
    assert headers["X-Nibble-Ignored"] == f"max_tokens ({MOST})"


def test_an_answer_without_a_limit_of_its_own_gets_the_servers(server):
    answer, headers = ask(server, "/v1/chat/completions", {"messages": QUESTION, "temperature": 0})
    assert answer["usage"]["completion_tokens"] == MOST and answer["choices"][0]["finish_reason"] == "length"
    assert headers["X-Nibble-Ignored"] is None


SHARED = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": TEXT}]}, lambda a: a["usage"]["prompt_tokens_details"]["cached_tokens"]),
    "completions": ("/v1/completions", {"prompt": TEXT}, lambda a: a["usage"]["prompt_tokens_details"]["cached_tokens"]),
    "responses": ("/v1/responses", {"input": "Now this: " + TEXT}, lambda a: a["usage"]["input_tokens_details"]["cached_tokens"]),
    "messages": ("/v1/messages", {"messages": [{"role": "user", "content": "Then this: " + TEXT}], "max_tokens": 4}, lambda a: a["usage"]["cache_read_input_tokens"]),
}


@pytest.mark.parametrize("api", SHARED)
def test_requests_share_their_prompts_with_those_of_the_same_salt_only(server, api):
    path, body, num_cached = SHARED[api]
    for salt in [f"{api} one", f"{api} two"]:
        first, second = (num_cached(ask(server, path, {**body, "cache_salt": salt})[0]) for _ in range(2))
        assert first == 0 and second >= 32, salt
