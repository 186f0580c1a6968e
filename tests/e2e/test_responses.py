"""Tests /v1/responses with the official openai package, and its events as bytes on the wire."""

import json
import urllib.request

import openai
import pytest
from openai.types.responses import Response

from test_serve import CONTROL, QUESTION, serving

TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
WEATHER = "What is the weather in Oslo?"


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def raw_events(server, **request):
    """Yields the names and data of a stream's events."""
    body = json.dumps({**request, "stream": True}).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url + "/v1/responses", body), timeout=60) as reply:
        blocks = reply.read().decode().split("\n\n")
    assert blocks.pop() == ""
    events = []
    for block in blocks:
        name, data = block.split("\n")
        assert name.startswith("event: ") and data.startswith("data: ")
        events.append(json.loads(data[6:]))
        assert events[-1]["type"] == name[7:]
    return events


def without_ids(items):
    return [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in items]


def test_a_response_has_reasoning_and_a_message(server):
    reply = server.client().responses.create(model="tiny", input="What is 17 + 25?", temperature=0)
    assert reply.output_text == "17 + 25 = 42."
    assert [item.type for item in reply.output] == ["reasoning", "message"]
    assert "carry" in reply.output[0].content[0].text
    assert reply.status == "completed" and reply.error is None and reply.incomplete_details is None
    assert reply.output[1].content[0].annotations == []
    chat = server.client().chat.completions.create(model="tiny", messages=QUESTION, temperature=0)
    assert chat.choices[0].message.content == reply.output_text
    assert reply.usage.input_tokens == chat.usage.prompt_tokens
    assert reply.usage.output_tokens == chat.usage.completion_tokens
    assert (
        reply.usage.output_tokens_details.reasoning_tokens
        == chat.usage.completion_tokens_details.reasoning_tokens
        > 0
    )


def test_a_response_is_what_the_official_types_say(server):
    request = dict(model="tiny", input=WEATHER, tools=TOOLS, temperature=0, metadata={"a": "b"})
    body = json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url + "/v1/responses", body)) as reply:
        told = json.load(reply)
    told["usage"]["input_tokens_details"]["cache_write_tokens"] = 0  # other servers bill it; nibble does not report it
    told["tools"][0]["strict"] = False  # required in answers, but not in requests
    parsed = Response.model_validate(told, strict=True)
    assert parsed.metadata == {"a": "b"} and parsed.reasoning.effort == "medium"


@pytest.mark.parametrize("seed", range(8))
def test_a_stream_adds_up_to_the_whole_response(server, seed):
    # At this temperature the model also generates malformed harmony.
    request = dict(
        input="What is 17 + 25?", temperature=1.8, seed=seed, max_output_tokens=80, tools=TOOLS, top_logprobs=1
    )
    body = json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url + "/v1/responses", body)) as reply:
        whole = json.load(reply)
    events = raw_events(server, **request)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1]
    assert last["type"] == "response." + whole["status"]
    assert last["response"]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
    assert without_ids(last["response"]["output"]) == without_ids(whole["output"])
    for item in whole["output"]:
        assert not CONTROL.search(item.get("arguments") or item["content"][0]["text"])

    # The events of each item add up to the item.
    items, open_item = [], None
    for event in events[2:-1]:
        kind = event["type"]
        if kind == "response.output_item.added":
            assert open_item is None and event["output_index"] == len(items)
            open_item = event["item"]
            assert open_item["status"] == "in_progress"
            continue
        assert event["output_index"] == len(items)
        if kind == "response.output_item.done":
            assert {**open_item, "status": event["item"]["status"]} == event["item"]
            items.append(event["item"])
            open_item = None
            continue
        assert event["item_id"] == open_item["id"]
        if kind == "response.content_part.added":
            assert event["content_index"] == 0 and open_item["content"] == []
            open_item["content"].append(event["part"])
        elif kind in ("response.output_text.delta", "response.reasoning_text.delta"):
            open_item["content"][0]["text"] += event["delta"]
            if open_item["type"] == "message":
                open_item["content"][0]["logprobs"] += event["logprobs"]
        elif kind in ("response.output_text.done", "response.reasoning_text.done"):
            assert event["text"] == open_item["content"][0]["text"]
        elif kind == "response.content_part.done":
            assert event["part"] == open_item["content"][0]
        elif kind == "response.function_call_arguments.delta":
            open_item["arguments"] += event["delta"]
        else:
            assert kind == "response.function_call_arguments.done"
            assert event["arguments"] == open_item["arguments"]
    assert open_item is None and items == last["response"]["output"]


def test_the_official_stream_helper_follows(server):
    with server.client().responses.stream(model="tiny", input="What is 17 + 25?", temperature=0) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == "17 + 25 = 42."
    text = [event for event in events if event.type == "response.output_text.delta"]
    assert text[-1].snapshot == final.output_text
    reasoning = "".join(event.delta for event in events if event.type == "response.reasoning_text.delta")
    assert reasoning == final.output[0].content[0].text
    with server.client().responses.stream(model="tiny", input=WEATHER, tools=TOOLS, temperature=0) as stream:
        calls = [event for event in stream if event.type == "response.function_call_arguments.delta"]
        final = stream.get_final_response()
    assert calls[-1].snapshot == final.output[-1].arguments


@pytest.mark.parametrize("stateful", [True, False])
def test_a_tool_is_called_and_its_result_goes_back(server, stateful):
    client = server.client()
    request = dict(model="tiny", tools=TOOLS, temperature=0, max_output_tokens=150)
    first = client.responses.create(**request, input=WEATHER)
    call = first.output[-1]
    assert call.type == "function_call" and call.name == "get_weather" and call.status == "completed"
    assert "city" in json.loads(call.arguments)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature": 7}'}
    if stateful:
        second = client.responses.create(**request, input=[result], previous_response_id=first.id)
        assert second.previous_response_id == first.id
    else:
        told = [{"role": "user", "content": WEATHER}, *(item.model_dump() for item in first.output), result]
        second = client.responses.create(**request, input=told, store=False)
    assert second.output
    # The prompt equals that of a chat with the same turns, reasoning included, so it is found in the prefix cache.
    chat = client.chat.completions.create(
        model="tiny",
        tools=[{"type": "function", "function": {k: v for k, v in TOOLS[0].items() if k != "type"}}],
        max_tokens=1,
        messages=[
            {"role": "user", "content": WEATHER},
            {
                "role": "assistant",
                "reasoning": first.output[0].content[0].text,
                "tool_calls": [
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": '{"temperature": 7}'},
        ],
    )
    assert [item.type for item in first.output] == ["reasoning", "function_call"]
    assert second.usage.input_tokens == chat.usage.prompt_tokens
    assert second.usage.input_tokens_details.cached_tokens > 32


def test_a_conversation_goes_on_by_its_id(server):
    client = server.client()
    first = client.responses.create(model="tiny", input="What is 17 + 25?", instructions="Be brief.", temperature=0)
    second = client.responses.create(model="tiny", input="And 1 + 1?", previous_response_id=first.id, temperature=0)
    told = [
        {"role": "user", "content": "What is 17 + 25?"},
        *(item.model_dump(exclude_none=True) for item in first.output),
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And 1 + 1?"}]},
    ]
    whole = client.responses.create(model="tiny", input=told, temperature=0)
    # Instructions apply to one request and are not carried over.
    assert second.output_text == whole.output_text and second.usage.input_tokens == whole.usage.input_tokens
    third = client.responses.create(model="tiny", input="Hm?", previous_response_id=second.id, max_output_tokens=5)
    assert third.usage.input_tokens > second.usage.input_tokens
    assert third.status == "incomplete" and third.incomplete_details.reason == "max_output_tokens"
    assert third.output[-1].status == "incomplete"


def test_what_was_not_stored_or_does_not_fit_is_not_found(server):
    client = server.client()
    unstored = client.responses.create(model="tiny", input="Hi", store=False, max_output_tokens=3)
    for unknown in (unstored.id, "resp_none"):
        with pytest.raises(openai.BadRequestError) as error:
            client.responses.create(model="tiny", input="Hi", previous_response_id=unknown)
        assert error.value.code == "previous_response_not_found" and error.value.param == "previous_response_id"


@pytest.mark.parametrize(
    "request_, param, told",
    [
        (dict(), "input", "is missing"),
        (dict(input=[]), "input", "not empty"),
        (dict(input=[{"type": "item_reference", "id": "x"}]), "input[0].type", "must be message, reasoning"),
        (dict(input=[{"role": "user"}]), "input[0].content", "is missing"),
        (dict(input=[{"role": "user", "content": [{"type": "input_image"}]}]), "input[0].content[0].type", "nothing else"),
        (dict(input=[{"type": "function_call_output", "call_id": "x", "output": ""}]), "input", "call_id 'x'"),
        (dict(input="x", tools=[{"type": "web_search"}]), "tools[0].type", "no built-in tools"),
        (dict(input="x", tool_choice="required"), "tool_choice", "can't be forced"),
        (dict(input="x", text={"format": {"type": "json_object"}}), "text.format.type", "not available"),
        (dict(input="x", background=True), "background", "must be false"),
        (dict(input="x", truncation="auto"), "truncation", "disabled"),
        (dict(input="x", reasoning={"effort": "huge"}), "reasoning.effort", "low, medium or high"),
        (dict(input="x", max_output_tokens=0), "max_output_tokens", "from 1"),
        (dict(input="x", conversation="c"), "conversation", "must be absent"),
    ],
)
def test_refusals_name_the_parameter(server, request_, param, told):
    with pytest.raises(openai.BadRequestError) as error:
        server.client().post("/responses", body=request_, cast_to=object)
    assert error.value.param == param and told in str(error.value)
