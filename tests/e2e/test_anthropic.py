"""Tests /v1/messages with Anthropic's official package."""

import json

import anthropic
import pytest

from test_serve import ENDLESS, QUESTION, serving

TOOL = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
WEATHER = [{"role": "user", "content": "What is the weather in Oslo?"}]
THINKING = {"type": "enabled", "budget_tokens": 1024}


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def client_of(server, key="none"):
    return anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0, timeout=60)


def request_of(extra_body={}, **fields):
    # The package no longer has a parameter for temperature.
    return {"model": "tiny", "max_tokens": 200, "messages": QUESTION, **fields, "extra_body": {"temperature": 0, **extra_body}}


def create(server, **fields):
    return client_of(server).messages.create(**request_of(**fields))


def texts(message, kind="text"):
    return [getattr(block, kind) for block in message.content if block.type == kind]


def test_a_question_is_answered_and_thinking_told_who_asks_for_it(server):
    plain = create(server)
    assert [block.type for block in plain.content] == ["text"] and texts(plain) == ["17 + 25 = 42."]
    assert plain.stop_reason == "end_turn" and plain.stop_sequence is None and plain.role == "assistant"
    shown = create(server, thinking=THINKING)
    assert [block.type for block in shown.content] == ["thinking", "text"]
    assert "carry" in shown.content[0].thinking and shown.content[0].signature
    chat = server.client().chat.completions.create(model="tiny", messages=QUESTION, temperature=0)
    usage = shown.usage
    assert usage.input_tokens + usage.cache_read_input_tokens == chat.usage.prompt_tokens
    assert usage.output_tokens == chat.usage.completion_tokens and usage.cache_read_input_tokens > 0


@pytest.mark.parametrize("fields", [dict(), dict(thinking=THINKING), dict(thinking=THINKING, tools=[TOOL], messages=WEATHER)])
def test_a_stream_adds_up_to_the_whole_message(server, fields):
    whole = create(server, **fields)
    request = request_of(**fields)
    with client_of(server).messages.stream(**request) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"

    def bare(message):
        return [{key: value for key, value in block.model_dump().items() if key != "id"} for block in message.content]

    assert bare(final) == bare(whole) and final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens
    raw = client_of(server).messages.create(**request, stream=True)
    indices = [event.index for event in raw if event.type == "content_block_start"]
    assert indices == list(range(len(whole.content)))


def test_a_tool_is_called_and_its_result_goes_back(server):
    first = create(server, messages=WEATHER, tools=[TOOL], thinking=THINKING)
    [call] = [block for block in first.content if block.type == "tool_use"]
    assert first.stop_reason == "tool_use" and call.name == "get_weather" and "city" in call.input
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "7 degrees"}]}
    told = [*WEATHER, {"role": "assistant", "content": first.content}, {"role": "user", "content": [{"type": "text", "text": "Well?"}, result]}]
    second = create(server, messages=told, tools=[TOOL], thinking=THINKING)
    assert second.content and second.usage.cache_read_input_tokens > 32
    count = client_of(server).messages.count_tokens(model="tiny", messages=told, tools=[TOOL])
    assert count.input_tokens == second.usage.input_tokens + second.usage.cache_read_input_tokens
    none = create(server, messages=WEATHER, tools=[TOOL], tool_choice={"type": "none"})
    assert none.stop_reason != "tool_use"


def test_how_it_ended_is_told(server):
    assert create(server, max_tokens=3).stop_reason == "max_tokens"
    stopped = create(server, stop_sequences=["nothing", " ="])
    assert (stopped.stop_reason, stopped.stop_sequence, texts(stopped)) == ("stop_sequence", " =", ["17 + 25"])
    with serving("--context", 140) as small:
        assert create(small, max_tokens=30_000, extra_body={"ignore_eos": True}).stop_reason == "model_context_window_exceeded"


def test_an_answer_goes_on_where_the_last_message_ends(server):
    begun = [*QUESTION, {"role": "assistant", "content": "17 + 25 ="}]
    told = create(server, messages=begun)
    chat = server.client().chat.completions.create(model="tiny", messages=begun, temperature=0, max_tokens=200, extra_body={"continue_final_message": True})
    assert "\n\n".join(texts(told)) == chat.choices[0].message.content


def test_what_an_agent_sends_is_taken(server):
    def request(billing):
        return create(
            server,
            max_tokens=4,
            system=[
                {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1; cch={billing};"},
                {"type": "text", "text": "You are an agent. " * 20, "cache_control": {"type": "ephemeral"}},
            ],
            messages=[
                {"role": "user", "content": [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": "Go."}]},
                {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}, {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}]}]},
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Well?"},
            ],
            tools=[TOOL, {"type": "bash_20250124", "name": "bash"}],
            thinking={"type": "adaptive"},
            metadata={"user_id": "x"},
            extra_body={"context_management": {"edits": []}, "output_config": {"effort": "high"}},
            extra_headers={"anthropic-beta": "x"},
            extra_query={"beta": "true"},
        )

    first, second = request("aaaa"), request("bbbb")
    # Claude Code's line that changes with every request is not part of the prompt.
    assert second.usage.cache_read_input_tokens > 0 and first.usage.output_tokens == 4


def test_models_are_listed(server):
    [model] = client_of(server).models.list().data
    assert (model.id, model.type, model.display_name) == ("tiny", "model", "tiny")
    assert client_of(server).models.retrieve("tiny").id == "tiny"


@pytest.mark.parametrize(
    "fields, error, told",
    [
        (dict(model="other"), anthropic.NotFoundError, "does not exist"),
        (dict(extra_body={"temperature": 7}), anthropic.BadRequestError, "temperature must be"),
        (dict(messages=[]), anthropic.BadRequestError, "at least one message"),
        (dict(messages=[{"role": "user", "content": [{"type": "image", "source": {}}]}]), anthropic.BadRequestError, "reads only text"),
        (dict(messages=[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x"}]}]), anthropic.BadRequestError, "with id 'x'"),
        (dict(tools=[TOOL], tool_choice={"type": "tool", "name": "other"}), anthropic.BadRequestError, "a tool of the request"),
        (dict(extra_body={"output_config": {"format": {"type": "json_schema", "schema": {"$dynamicRef": "#x"}}}}), anthropic.BadRequestError, "'$dynamicRef'"),
    ],
)
def test_errors_have_the_form_of_the_api(server, fields, error, told):
    with pytest.raises(error) as raised:
        create(server, **fields)
    body = raised.value.body
    assert body["type"] == "error" and told in body["error"]["message"] and body["request_id"]
    assert raised.value.response.status_code < 500


def test_a_key_and_a_full_server_are_told_in_its_words():
    with serving("--api-key", "k", "--max-sequences", 1, "--max-queue", 0) as server:
        with pytest.raises(anthropic.AuthenticationError):
            client_of(server, "x").models.list()
        client = client_of(server, "k")
        client.messages.create(model="tiny", max_tokens=1, messages=QUESTION)
        busy = server.post("/v1/completions", {**ENDLESS, "stream": True}, "X-Api-Key: k\r\n")
        assert b"200" in busy.makefile("rb").readline()
        with pytest.raises(anthropic.RateLimitError) as raised:
            client.messages.create(model="tiny", max_tokens=1, messages=QUESTION)
        assert raised.value.body["error"]["type"] == "rate_limit_error"


def test_a_server_that_ends_says_so_in_the_stream():
    with serving("--shutdown-timeout", 0) as server:
        body = {"model": "tiny", "max_tokens": 30_000, "messages": QUESTION, "stream": True, "ignore_eos": True}
        answer = server.post("/v1/messages", body).makefile("rb")
        while not answer.readline().startswith(b"event: content_block"):
            pass
        server.process.terminate()
        last = [line for line in answer.read().decode().splitlines() if line.startswith("data: ")][-1]
        assert json.loads(last[6:])["error"]["type"] == "overloaded_error"
