"""Tests --stream-interval: fewer events with the same text, in each API."""

import json
import urllib.request

import pytest

from test_serve import QUESTION, serving

INTERVAL = 8
NUM_TOKENS = 64
CHAT = {"messages": QUESTION, "model": "tiny", "temperature": 0, "stream": True}


def completion(event):
    return event["choices"][0]["text"] if event["choices"] else ""


def chat(event):
    delta = event["choices"][0]["delta"] if event["choices"] else {}
    return (delta.get("reasoning_content") or "") + (delta.get("content") or "")


def message(event):
    delta = event.get("delta", {})
    return delta.get("thinking", "") + delta.get("text", "")


def response(event):
    return event["delta"] if event["type"].endswith(".delta") else ""


def ollama_chat(event):
    return event["message"].get("thinking", "") + event["message"]["content"]


def ollama_raw(event):
    return event["response"]


PROMPT = {"prompt": "It was", "model": "tiny", "stream": True}
APIS = [
    ("/v1/completions", {**PROMPT, "temperature": 0, "max_tokens": NUM_TOKENS, "ignore_eos": True}, completion),
    ("/v1/chat/completions", {**CHAT, "max_tokens": NUM_TOKENS, "ignore_eos": True}, chat),
    ("/v1/messages", {**CHAT, "max_tokens": NUM_TOKENS, "thinking": {"type": "enabled", "budget_tokens": 1024}}, message),
    ("/v1/responses", {"input": "What is 17 + 25?", "temperature": 0, "stream": True, "max_output_tokens": NUM_TOKENS}, response),
    ("/api/chat", {**CHAT, "think": True, "options": {"temperature": 0, "num_predict": NUM_TOKENS}}, ollama_chat),
    ("/api/generate", {**PROMPT, "raw": True, "options": {"temperature": 0, "num_predict": NUM_TOKENS}}, ollama_raw),
]


@pytest.fixture(scope="module")
def servers():
    with serving() as each, serving("--stream-interval", INTERVAL) as joined:
        yield each, joined


def texts(server, path, body, text_of):
    """Returns the texts of a stream's events, without empty ones."""
    request = urllib.request.Request(server.url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as reply:
        lines = [line.decode().removeprefix("data: ") for line in reply]
    found = [text_of(json.loads(line)) for line in lines if line.startswith("{")]
    return [text for text in found if text]


@pytest.mark.parametrize("path, body, text_of", APIS)
def test_a_stream_of_fewer_events_has_the_same_text(servers, path, body, text_of):
    each, joined = (texts(server, path, body, text_of) for server in servers)
    assert "".join(joined) == "".join(each) != ""
    assert joined[0] == each[0]  # the first text is not delayed
    # An event comes every 8 tokens. Two more are for the first and last text, and two where a message ends.
    assert len(joined) <= len(each) / INTERVAL * 1.5 + 4 < len(each)


def test_continuous_usage_counts_the_tokens_of_each_event(servers):
    body = {**APIS[0][1], "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    counts = texts(servers[1], APIS[0][0], body, lambda event: [event["usage"]["completion_tokens"]])
    steps = [after[0] - before[0] for before, after in zip(counts, counts[1:])]
    assert counts[0] == [1] and counts[-1] == [NUM_TOKENS]
    assert all(step >= INTERVAL for step in steps[:-2])
