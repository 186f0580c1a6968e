"""Tests the operator's defaults for requests that leave out sampling, effort or instructions."""

import json
import urllib.request

import pytest

from test_serve import QUESTION, serving

FLAGS = ("--temperature", 0, "--top-p", 0.5, "--reasoning", "low", "--system", "Answer like a pirate.")


@pytest.fixture(scope="module")
def server():
    with serving(*FLAGS) as running:
        yield running


def prompt_of(server, **request):
    data = json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url + "/apply-template", data), timeout=30) as reply:
        return json.load(reply)["prompt"]


def test_a_request_that_says_nothing_gets_the_defaults(server):
    client = server.client()
    plain = [client.chat.completions.create(model="tiny", messages=QUESTION, max_tokens=30).choices[0].message for _ in range(3)]
    assert plain[0] == plain[1] == plain[2]  # the default temperature is 0
    response = client.responses.create(model="tiny", input="Hi", max_output_tokens=4)
    assert (response.temperature, response.top_p, response.reasoning.effort) == (0, 0.5, "low")
    prompt = prompt_of(server, messages=QUESTION)
    assert "Reasoning: low" in prompt and "# Instructions\n\nAnswer like a pirate." in prompt
    with urllib.request.urlopen(server.url + "/status.json", timeout=30) as reply:
        told = json.load(reply)["defaults"]
    assert told["temperature"] == 0 and told["reasoning_effort"] == "low" and told["instructions"] == "Answer like a pirate."


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_of_a_request_replace_the_servers(server, role):
    prompt = prompt_of(server, messages=[{"role": role, "content": "Be brief."}, *QUESTION], reasoning_effort="high")
    assert "Reasoning: high" in prompt and "Be brief." in prompt and "pirate" not in prompt
    assert "pirate" not in prompt_of(server, messages=[{"role": role, "content": ""}, *QUESTION])


def test_every_api_with_a_chat_has_the_instructions(server):
    """The same chat has the same number of prompt tokens in every API."""
    count = server.client().chat.completions.create(model="tiny", messages=QUESTION, max_tokens=1).usage.prompt_tokens
    text = QUESTION[0]["content"]

    def post(path, body):
        with urllib.request.urlopen(urllib.request.Request(server.url + path, json.dumps(body).encode()), timeout=30) as reply:
            return json.load(reply)

    assert post("/v1/responses/input_tokens", {"input": text})["input_tokens"] == count
    assert post("/v1/messages/count_tokens", {"messages": QUESTION})["input_tokens"] == count
    assert post("/tokenize", {"messages": QUESTION})["count"] == count
    for path, body in (("/api/chat", {"messages": QUESTION}), ("/api/generate", {"prompt": text})):
        assert post(path, {**body, "stream": False, "options": {"num_predict": 1}})["prompt_eval_count"] == count
