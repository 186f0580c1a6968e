"""Tests requests of clients that fail if a server differs from what they expect: paths, model names, limits, versions,
errors."""

import json
import urllib.error
import urllib.request

import pytest

from test_serve import QUESTION, serving

FEW = {"temperature": 0, "max_tokens": 4}


@pytest.fixture(scope="module")
def server():
    with serving("--context", 2048, "--date", "2026-11-26") as running:
        yield running


def send(server, path, body=None, method=None):
    """Returns status, headers and JSON of the answer."""
    data = None if body is None else json.dumps(body).encode() if not isinstance(body, bytes) else body
    request = urllib.request.Request(server.url + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.headers, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.load(error)


def told(answer):
    """Returns the message of an error in the format of any API."""
    error = answer["error"]
    return error if isinstance(error, str) else error["message"]


# paths


@pytest.mark.parametrize("path", ["//v1/chat/completions", "/v1//chat/completions", "/v1/chat/completions/", "/chat/completions?api-version=1"])
def test_slashes_too_many_do_not_matter(server, path):
    assert send(server, path, {"messages": QUESTION, **FEW})[0] == 200


@pytest.mark.parametrize(
    "path, endpoint",
    [
        ("/v1/v1/messages", "/v1/messages"),
        ("/v1/v1/models", "/v1/models"),
        ("/api/v1/chat/completions", "/v1/chat/completions"),
        ("/openai/deployments/tiny/chat/completions?api-version=1", "/v1/chat/completions"),
        ("/v1/api/tags", "/api/tags"),
    ],
)
def test_a_wrong_base_url_is_told(server, path, endpoint):
    status, _, answer = send(server, path, {"messages": QUESTION})
    assert status == 404 and f"the endpoint is {endpoint}." in told(answer) and f"'{server.url}/v1' for OpenAI's API" in told(answer)


@pytest.mark.parametrize(
    "method, path",
    [(method, path) for method in ("GET", "POST") for path in ("/v1/embeddings", "/v1/rerank", "/v1/moderations", "/v1/audio/speech", "/v1/images/generations", "/v1/batches", "/v1/files/f_1", "/v1/conversations", "/v1/responses/compact", "/infill", "/api/embed")],
)
def test_an_endpoint_that_is_not_there_says_why(server, method, path):
    status, _, answer = send(server, path, {"input": "a"} if method == "POST" else None, method)
    assert status == 501 and f"{path.removesuffix('/speech').removesuffix('/generations').removesuffix('/f_1')} is not available: " in told(answer)


def test_an_error_of_batches_has_the_form_of_their_api(server):
    status, _, answer = send(server, "/v1/messages/batches", {})
    assert status == 501 and answer["type"] == "error" and "one by one" in told(answer)


def test_what_other_servers_tell_of_themselves(server):
    for path in ("/health", "/healthz", "/ready", "/ping"):
        assert send(server, path)[0] == 200
    assert send(server, "/ping", b"", "POST")[0] == 200
    props = send(server, "/props")[2]
    assert props["default_generation_settings"]["n_ctx"] == 2048 and props["model_alias"] == "tiny"
    assert send(server, "/load")[2] == {"server_load": 0}


# names and versions


def test_the_names_of_tags_are_valid_everywhere(server):
    [row] = send(server, "/api/tags")[2]["models"]
    name = row["model"]
    assert name == "tiny:latest" and send(server, f"/v1/models/{name}")[2]["id"] == name
    for path, body in [
        ("/v1/chat/completions", {"messages": QUESTION, **FEW}),
        ("/v1/completions", {"prompt": "a", **FEW}),
        ("/v1/responses", {"input": "a", "max_output_tokens": 4}),
        ("/v1/messages", {"messages": QUESTION, **FEW}),
        ("/v1/messages/count_tokens", {"messages": QUESTION}),
        ("/api/generate", {"prompt": "a", "stream": False, "options": {"num_predict": 2}}),
        ("/api/show", {}),
        ("/apply-template", {"messages": QUESTION}),
        ("/tokenize", {"prompt": "a"}),
        ("/detokenize", {"tokens": [1]}),
    ]:
        assert send(server, path, {"model": name, **body})[0] == 200, path
        assert send(server, path, {"model": "other:latest", **body})[0] == 404, path


def test_a_client_of_ollama_learns_what_it_needs(server):
    version = tuple(int(part) for part in send(server, "/api/version")[2]["version"].split("."))
    assert version >= (0, 13, 4)  # the version that Codex requires
    info = send(server, "/api/show", {"model": "tiny:latest"})[2]["model_info"]
    assert info["general.basename"] == "tiny" and info[info["general.architecture"] + ".context_length"] == 2048


# limits


LONG = [{"role": "user", "content": "word " * 3000}]


def test_a_prompt_that_is_too_long_is_told_as_each_api_does(server):
    status, _, answer = send(server, "/v1/messages", {"messages": LONG, "max_tokens": 9})
    assert status == 400 and answer["error"]["type"] == "invalid_request_error"
    words = told(answer).split()
    assert words[:4] == ["prompt", "is", "too", "long:"] and int(words[4]) > 3000 and words[5:] == ["tokens", ">", "2048", "maximum"]
    status, _, answer = send(server, "/v1/chat/completions", {"messages": LONG})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    assert told(answer).startswith("This model's maximum context length is 2048 tokens.")


def test_minus_one_is_no_limit(server):
    for path, body in [
        ("/v1/chat/completions", {"messages": QUESTION, "max_tokens": -1, "temperature": 0}),
        ("/v1/chat/completions", {"messages": QUESTION, "max_completion_tokens": -1, "temperature": 0}),
    ]:
        assert send(server, path, body)[2]["choices"][0]["message"]["content"] == "17 + 25 = 42."
    assert send(server, "/v1/completions", {"prompt": "a", "max_tokens": -1, "stop": "e", "temperature": 0})[0] == 200
    reply = send(server, "/api/chat", {"messages": QUESTION, "stream": False, "options": {"num_predict": -1, "temperature": 0}})[2]
    assert reply["message"]["content"] == "17 + 25 = 42."
    assert send(server, "/v1/responses", {"input": "a", "max_output_tokens": -1})[0] == 400
    assert send(server, "/v1/messages", {"messages": QUESTION, "max_tokens": -1})[0] == 400


def test_a_prompt_is_cut_at_either_side(server):
    tokens = send(server, "/tokenize", {"prompt": "one two three four"})[2]["tokens"]

    def kept(side):
        body = {"prompt": tokens, "truncate_prompt_tokens": 2, "truncation_side": side, "max_tokens": 1, "return_token_ids": True}
        return send(server, "/v1/completions", body)[2]["choices"][0]["prompt_token_ids"]

    assert kept("left") == tokens[-2:] and kept("right") == tokens[:2]


# nothing is ignored silently


@pytest.mark.parametrize(
    "path, body, name",
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a", "foo": 1}], **FEW}, "messages[].foo"),
        ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a", "foo": 1}]}], "max_output_tokens": 4}, "input[].content[].foo"),
        ("/v1/messages", {"messages": [{"role": "user", "content": "a", "foo": 1}], **FEW}, "messages[].foo"),
        ("/api/chat", {"messages": [{"role": "user", "content": "a", "foo": 1}], "stream": False, "options": {"num_predict": 2}}, "messages[].foo"),
        ("/apply-template", {"messages": [{"role": "user", "content": "a", "foo": 1}]}, "messages[].foo"),
        ("/tokenize", {"messages": [{"role": "user", "content": "a", "foo": 1}]}, "messages[].foo"),
        ("/detokenize", {"tokens": [1], "foo": 1}, "foo"),
        ("/api/show", {"model": "tiny", "foo": 1}, "foo"),
    ],
)
def test_a_member_without_effect_is_named(server, path, body, name):
    status, headers, _ = send(server, path, body)
    assert status == 200 and headers["X-Nibble-Ignored"] == name
    twice = json.dumps(body)[:-1] + ', "bar": {"a": 1, "b": 2, "a": 3}}'
    status, _, answer = send(server, path, twice.encode())
    assert status == 400 and '"bar.a" twice' in told(answer)


def test_the_models_reasoning_comes_back_under_other_names(server):
    def prompt(**reasoning):
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [call], **reasoning}, {"role": "tool", "tool_call_id": "1", "content": "x"}]
        return send(server, "/apply-template", {"messages": messages})[2]["prompt"]

    expected = prompt(reasoning="Hm.")
    assert "analysis<|message|>Hm.<|end|>" in expected
    assert prompt(reasoning_details=[{"type": "reasoning.text", "text": "Hm.", "index": 0}]) == expected
    assert prompt(thinking_blocks=[{"type": "thinking", "thinking": "Hm.", "signature": "s"}]) == expected


def test_a_reference_needs_no_type(server):
    first = send(server, "/v1/responses", {"input": "a", "max_output_tokens": 16})[2]
    item = first["output"][0]["id"]
    body = {"input": [{"role": "user", "content": "a"}, {"id": item}, {"role": "user", "content": "b"}], "max_output_tokens": 4}
    assert send(server, "/v1/responses", body)[0] == 200
    body["input"][1] = {"id": "rs_unknown"}
    status, _, answer = send(server, "/v1/responses", body)
    assert status == 404 and "Item with id 'rs_unknown' not found" in told(answer)


def test_tools_that_the_client_runs_are_offered(server):
    def count(tools):
        return send(server, "/v1/responses/input_tokens", {"input": "a", "tools": tools})[2]["input_tokens"]

    assert count([{"type": "shell"}]) > count([]) and count([{"type": "apply_patch"}]) > count([])
    body = {"input": "List the files.", "tools": [{"type": "shell"}], "tool_choice": "required", "temperature": 0, "max_output_tokens": 300}
    [call] = [item for item in send(server, "/v1/responses", body)[2]["output"] if item["type"] == "shell_call"]
    assert all(isinstance(command, str) for command in call["action"]["commands"])
