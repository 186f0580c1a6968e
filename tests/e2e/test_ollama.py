"""Tests /api/chat, /api/generate and the model endpoints with Ollama's official package."""

import json

import ollama
import pytest

from test_serve import QUESTION, TOOLS, serving

WEATHER = [{"role": "user", "content": "What is the weather in Oslo?"}]
GREEDY = {"temperature": 0, "num_predict": 200}


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def client_of(server, **headers):
    return ollama.Client(host=server.url, headers=headers)


def chat(server, **fields):
    return client_of(server).chat(**{"model": "tiny", "messages": QUESTION, "options": GREEDY, **fields})


def test_a_question_is_answered_and_timed(server):
    reply = chat(server)
    assert reply.message.content == "17 + 25 = 42." and "carry" in reply.message.thinking
    assert reply.done and reply.done_reason == "stop" and reply.message.role == "assistant"
    assert reply.prompt_eval_count > 50 and reply.eval_count > 20 and reply.model == "tiny"
    assert 0 < reply.prompt_eval_duration < reply.total_duration and reply.eval_duration > 0 and reply.created_at
    assert chat(server, model="tiny:latest").message.content == reply.message.content


def test_a_stream_adds_up_to_the_whole_answer(server):
    whole = chat(server)
    parts = list(chat(server, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert "".join(part.message.thinking or "" for part in parts) == whole.message.thinking
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].eval_count == whole.eval_count


def test_a_stream_is_lines_of_json_and_the_default(server):
    reply = server.post("/api/chat", {"model": "tiny", "messages": QUESTION, "options": {"num_predict": 40}}, "Connection: close\r\n").makefile("rb").read()
    head, _, body = reply.partition(b"\r\n\r\n")
    assert b"Content-Type: application/x-ndjson" in head
    lines = [line for line in body.split(b"\n") if line.startswith(b"{")]
    assert len(lines) > 3 and json.loads(lines[-1])["done_reason"] == "length"


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_called_and_its_result_goes_back(server, stream):
    if stream:
        parts = list(chat(server, messages=WEATHER, tools=TOOLS, stream=True))
        [part] = [part for part in parts if part.message.tool_calls]
        message = part.message
        assert not part.done and parts[-1].done  # some clients read only the counters of the last line
    else:
        message = chat(server, messages=WEATHER, tools=TOOLS).message
    [call] = message.tool_calls
    assert call.function.name == "get_weather" and "city" in call.function.arguments
    told = [*WEATHER, {"role": "assistant", "content": "", "tool_calls": [call.model_dump()]}, {"role": "tool", "tool_name": "get_weather", "content": "7"}]
    assert chat(server, messages=told, tools=TOOLS).prompt_eval_count > 100


def test_thinking_is_levelled_and_left_out(server):
    quiet = chat(server, think=False)
    assert quiet.message.thinking is None and quiet.message.content
    assert chat(server, think="high").prompt_eval_count == chat(server, think=True).prompt_eval_count
    reply = client_of(server)._request_raw("POST", "/api/chat", json={"model": "tiny", "messages": QUESTION, "think": False, "stream": False})
    assert reply.headers["X-Nibble-Ignored"] == "think (low)"


def test_log_probabilities_are_those_of_the_content(server):
    reply = chat(server, logprobs=True, top_logprobs=2)
    assert "".join(row.token for row in reply.logprobs) == reply.message.content
    assert all(len(row.top_logprobs) == 2 for row in reply.logprobs)


def test_a_text_is_answered_or_continued(server):
    client = client_of(server)
    answer = client.generate(model="tiny", prompt="What is 17 + 25?", options=GREEDY)
    assert answer.response == "17 + 25 = 42." and answer.thinking
    streamed = list(client.generate(model="tiny", prompt="What is 17 + 25?", options=GREEDY, stream=True))
    assert "".join(part.response for part in streamed) == answer.response
    raw = client.generate(model="tiny", prompt="It was a", raw=True, options={"temperature": 0, "num_predict": 8})
    whole = server.client().completions.create(model="tiny", prompt="It was a", temperature=0, max_tokens=8).choices[0].text
    assert raw.response == whole and raw.done_reason == "length"
    parts = client.generate(model="tiny", prompt="It was a", raw=True, options={"temperature": 0, "num_predict": 8}, stream=True)
    assert "".join(part.response for part in parts) == whole
    system = client.generate(model="tiny", prompt="Hi", system="Be brief.", options={"num_predict": 1})
    assert system.prompt_eval_count > client.generate(model="tiny", prompt="Hi", options={"num_predict": 1}).prompt_eval_count


def test_options_are_obeyed(server):
    assert chat(server, options={**GREEDY, "stop": [" ="]}).message.content == "17 + 25"
    first = chat(server, options={"seed": 5, "temperature": 1.5, "num_predict": 30})
    assert chat(server, options={"seed": 5, "temperature": 1.5, "num_predict": 30}).message == first.message
    assert first.done_reason == "length" and first.eval_count == 30
    penalised = chat(server, options={**GREEDY, "repeat_penalty": 10, "repeat_last_n": -1})
    assert penalised.message != chat(server).message
    assert chat(server, options={**GREEDY, "repeat_penalty": 10, "repeat_last_n": 0}).message == chat(server).message


def test_nothing_to_say_loads_the_model(server):
    client = client_of(server)
    assert client.chat(model="tiny").done_reason == "load" and client.generate(model="tiny").done_reason == "load"


def test_what_there_is_is_told(server):
    client = client_of(server)
    [model] = client.list().models
    assert model.model == "tiny:latest" and model.details.family == "gptoss"
    assert client.ps().models[0].context_length == 32768
    shown = client.show("tiny")
    assert set(shown.capabilities) == {"completion", "tools", "thinking"} and shown.parameters == "num_ctx 32768"
    assert shown.modelinfo["gptoss.context_length"] == 32768
    assert client._request_raw("GET", "/api/version").json()["version"]
    older = client._request_raw("POST", "/api/show", json={"name": "tiny:latest"}).json()
    assert older["model_info"]["general.architecture"] == "gptoss"


@pytest.mark.parametrize(
    "fields, status, told",
    [
        (dict(model="other"), 404, "does not exist"),
        (dict(format={"$dynamicRef": "#x"}), 400, "format: schema: '$dynamicRef'"),
        (dict(options={"mirostat": 2}), 400, "options.mirostat"),
        (dict(options={"temperature": 7}), 400, "options.temperature"),
        (dict(options={"repeat_penalty": 1.1, "repeat_last_n": 64}), 400, "repeat_last_n"),
        (dict(messages=[{"role": "user", "content": "x", "images": ["aGk="]}]), 400, "images"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_have_the_form_of_the_api(server, fields, status, told, stream):
    with pytest.raises(ollama.ResponseError) as error:
        reply = chat(server, **fields, stream=stream)
        if stream:
            list(reply)
    assert error.value.status_code == status and told in error.value.error


def test_other_models_can_not_be_had(server):
    client = client_of(server)
    for ask in (client.pull, client.delete, lambda name: client.embed(name, "x")):
        with pytest.raises(ollama.ResponseError) as error:
            ask("other")
        assert error.value.status_code == 501


def test_a_key_is_asked_for():
    with serving("--api-key", "k") as server:
        with pytest.raises(ollama.ResponseError) as error:
            client_of(server).list()
        assert error.value.status_code == 401
        assert client_of(server, Authorization="Bearer k").list().models
