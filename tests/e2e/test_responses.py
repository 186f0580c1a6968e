"""Tests /v1/responses with the official openai package, and its events as raw bytes."""

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


def test_a_response_repeats_its_parameters(server):
    reply = server.client().responses.create(model="tiny", input="Hi", temperature=0.7, top_p=0.9, max_output_tokens=1)
    assert (reply.temperature, reply.top_p, reply.max_output_tokens) == (0.7, 0.9, 1)


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
    told["tools"][0]["strict"] = False  # required in responses, but not in requests
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

    # The events of each item must add up to the item.
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
    # A chat with the same turns, including the reasoning, has the same prompt: it is found in the prefix
    # cache.
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
    # Instructions apply to one request only.
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
        (dict(input=[]), "input", "non-empty"),
        (dict(input=[{"role": "user"}]), "input[0].content", "is missing"),
        (dict(input=[{"role": "user", "content": [{"type": "input_image"}]}]), "input[0].content[0].type", "reads only text"),
        (dict(input=[{"type": "function_call_output", "call_id": "x", "output": ""}]), "input", "call_id 'x'"),
        (dict(input="x", tool_choice="required"), "tool_choice", "if no tool is offered"),
        (dict(input="x", text={"format": {"type": "grammar"}}), "text.format.type", "json_schema"),
        (dict(input="x", text={"format": {"type": "json_schema", "schema": {"$dynamicRef": "#x"}}}), "text.format", "'$dynamicRef'"),
        (dict(input="x", background=True, store=False), "background", "must be false"),
        (dict(input="x", truncation="middle"), "truncation", "disabled"),
        (dict(input="x", include=["everything"]), "include[0]", "one of the values"),
        (dict(input="x", reasoning={"effort": "huge"}), "reasoning.effort", "low, medium or high"),
        (dict(input="x", max_output_tokens=0), "max_output_tokens", "from 1"),
        (dict(input="x", conversation="c"), "conversation", 'must be absent, not "c": send the conversation in input or previous_response_id'),
        (dict(input="x", prompt={"id": "p"}), "prompt", 'must be absent, not {"id":"p"}: send the conversation in input or previous_response_id'),
    ],
)
def test_refusals_name_the_parameter(server, request_, param, told):
    with pytest.raises(openai.BadRequestError) as error:
        server.client().post("/responses", body=request_, cast_to=object)
    assert error.value.param == param and told in str(error.value)


# what agents send


def agent(**fields):
    """Returns a request as Codex sends it."""
    request = {
        "model": "tiny",
        "instructions": "You are a coding agent.",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": WEATHER}]}],
        "tools": TOOLS,
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "summary": "auto"},
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "0192",
        "client_metadata": {"session_id": "1", "x-codex-turn-metadata": "{}"},
        "text": {"verbosity": "low"},
        "temperature": 0,
        "max_output_tokens": 40,
    }
    return {**request, **fields}


CUSTOM = {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}
EVERY_TOOL = [
    *TOOLS,
    CUSTOM,
    {"type": "local_shell"},
    {"type": "web_search", "external_web_access": True},
    {"type": "image_generation", "output_format": "png"},
    {"type": "namespace", "name": "mcp__mail", "description": "Mail.", "tools": [{**TOOLS[0], "name": "send"}]},
    {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}},
    {"type": "mcp", "server_label": "x"},
    {"type": "computer_use_preview"},
    {"type": "shell"},
    {"type": "nobody_knows"},
]
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on."}]}
HISTORIES = {
    "reasoning that is encrypted": [{"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": "gAAA"}],
    "reasoning as text": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "content": [{"type": "text", "text": "Hm."}]}],
    "a commentary": [{"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "Wait."}]}],
    "a final answer": [{"type": "message", "role": "assistant", "phase": "final_answer", "content": [{"type": "output_text", "text": "Done."}]}],
    "a call": [
        {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "7"},
    ],
    "a call of a namespace": [
        {"type": "function_call", "call_id": "c", "name": "send", "namespace": "mcp__mail", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "7"}, {"type": "input_image", "image_url": "data:"}]},
    ],
    "a custom call": [
        {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
    ],
    "a local shell call": [
        {"type": "local_shell_call", "call_id": "c", "status": "completed", "action": {"type": "exec", "command": ["ls"], "timeout_ms": None, "working_directory": None, "env": None, "user": None}},
        {"type": "function_call_output", "call_id": "c", "output": "a"},
    ],
    "a search of tools": [
        {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "call_id": "c", "status": "completed", "execution": "client", "tools": [{"type": "function", "name": "found", "parameters": {}}]},
    ],
    "searches and pictures": [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "x"},
        {"type": "ghost_snapshot", "ghost_commit": {"id": "x"}},
    ],
    "compactions": [
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "compaction_summary", "encrypted_content": "x"},
        {"type": "context_compaction", "encrypted_content": "x"},
        {"type": "compaction_trigger"},
        {"type": "configuration_update", "model": "x"},
    ],
    "what other agents said": [{"type": "agent_message", "author": "a", "recipient": "b", "content": [{"type": "input_text", "text": "Hi"}]}],
    "more tools": [{"type": "additional_tools", "role": "developer", "tools": [CUSTOM]}],
    "instructions between": [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}],
}


@pytest.mark.parametrize("tool", EVERY_TOOL, ids=lambda tool: tool["type"])
@pytest.mark.parametrize("stream", [True, False])
def test_every_tool_of_an_agent_is_taken(server, tool, stream):
    request = agent(tools=[tool], stream=stream, max_output_tokens=5)
    if stream:
        assert raw_events(server, **request)[-1]["type"] == "response.incomplete"
    else:
        assert server.client().post("/responses", body=request, cast_to=Response).status == "incomplete"


@pytest.mark.parametrize("history", HISTORIES, ids=lambda name: name.replace(" ", "-"))
def test_every_history_of_an_agent_is_taken(server, history):
    request = agent(input=[USER, *HISTORIES[history], USER], tools=EVERY_TOOL, max_output_tokens=5)
    assert raw_events(server, **request)[-1]["type"] == "response.incomplete"


def test_a_turn_of_an_agent_ends_with_whole_items(server):
    events = raw_events(server, **agent(max_output_tokens=150, reasoning={"effort": "medium"}))
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in items] == ["reasoning", "function_call"] and events[-1]["type"] == "response.completed"
    assert items[0]["content"][0]["type"] == "reasoning_text"
    result = {"type": "function_call_output", "call_id": items[1]["call_id"], "output": "7 degrees"}
    second = raw_events(server, **agent(input=[*agent()["input"], *items, result], max_output_tokens=150, reasoning={"effort": "medium"}))
    usage = second[-1]["response"]["usage"]
    assert second[-1]["type"] in ("response.completed", "response.incomplete")
    assert usage["input_tokens_details"]["cached_tokens"] > 64 and "reasoning_tokens" in usage["output_tokens_details"]


def test_reasoning_that_an_agent_sends_back_sealed_reaches_the_model(server):
    medium = {"max_output_tokens": 150, "reasoning": {"effort": "medium"}}
    [first] = [event for event in raw_events(server, **agent(**medium)) if event["type"] == "response.completed"]
    reasoning, call = first["response"]["output"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "7 degrees"}

    def count(item):
        request = agent(input=[*agent()["input"], *item, call, result], **medium)
        reply = server.client().post("/responses/input_tokens", body=request, cast_to=object)
        return reply["input_tokens"]

    sealed = {key: reasoning[key] for key in ("type", "summary", "encrypted_content")}  # Codex leaves out id and content
    assert count([sealed]) == count([reasoning]) > count([])
    [unasked] = [event for event in raw_events(server, **agent(include=[], **medium)) if event["type"] == "response.completed"]
    assert unasked["response"]["output"][0]["encrypted_content"] is None


def test_a_context_that_is_full_is_told_as_an_event(server):
    with serving("--context", 128) as small:
        long = [{"role": "user", "content": "word " * 200}]
        events = raw_events(small, **agent(input=long))
        assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.failed"]
        assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
        with pytest.raises(openai.BadRequestError) as error:
            small.client().post("/responses", body=agent(input=long, stream=False), cast_to=object)
        assert error.value.code == "context_length_exceeded"


def test_the_oldest_messages_are_left_out_where_there_is_no_room(server):
    with serving("--context", 400) as small:
        client = small.client()
        turns = []
        for i in range(12):
            turns += [{"role": "user", "content": f"Question {i}: " + "word " * 10}, {"role": "assistant", "content": f"Answer {i}."}]
        turns[4:4] = [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "c", "output": "x"}]
        turns.append({"role": "user", "content": "And now?"})
        request = dict(model="tiny", input=turns, instructions="Be brief.", max_output_tokens=20)
        with pytest.raises(openai.BadRequestError):
            client.responses.create(**request)
        reply = client.responses.create(**request, truncation="auto")
        assert reply.truncation == "auto" and 250 < reply.usage.input_tokens <= 380
        counted = client.post("/responses/input_tokens", body={**request, "truncation": "auto"}, cast_to=object)
        assert counted == {"object": "response.input_tokens", "input_tokens": reply.usage.input_tokens}


def test_a_websocket_is_declined_so_that_the_client_posts(server):
    told = server.send(b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert b" 426 " in told.makefile("rb").readline()


# what is stored


def test_a_response_is_there_until_it_is_deleted(server):
    client = server.client()
    made = client.responses.create(model="tiny", input="Hi", max_output_tokens=4, metadata={"a": "b"})
    assert client.responses.retrieve(made.id) == made
    client.responses.delete(made.id)
    for ask in (client.responses.retrieve, client.responses.delete, client.responses.cancel, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            ask(made.id)
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="tiny", input="Hi", previous_response_id=made.id)


def test_its_input_comes_in_pages(server):
    client = server.client()
    told = [{"role": "user", "content": [{"type": "input_text", "text": str(i)}]} for i in range(5)]
    made = client.responses.create(model="tiny", input=told, max_output_tokens=2)
    forward = [item.content[0].text for item in client.responses.input_items.list(made.id, order="asc", limit=2)]
    assert forward == list("01234")  # the client requests page after page
    backward = client.responses.input_items.list(made.id, limit=2)
    assert [item.content[0].text for item in backward.data] == ["4", "3"] and backward.has_more
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.input_items.list(made.id, limit=101)
    assert error.value.param == "limit"
    text = client.responses.create(model="tiny", input="Hi", max_output_tokens=2)
    [item] = client.responses.input_items.list(text.id)
    assert item.role == "user" and item.content[0].text == "Hi"


def test_an_item_can_be_named_instead_of_sent(server):
    client = server.client()
    first = client.responses.create(model="tiny", input="What is 17 + 25?", temperature=0)
    named = [{"type": "item_reference", "id": item.id} for item in first.output]
    question = {"role": "user", "content": "What is 17 + 25?"}
    again = {"role": "user", "content": "Again?"}
    second = client.responses.create(model="tiny", input=[question, *named, again], temperature=0)
    third = client.responses.create(model="tiny", input=[question, *(i.model_dump() for i in first.output), again], temperature=0)
    assert second.output_text == third.output_text and second.usage.input_tokens == third.usage.input_tokens
    with pytest.raises(openai.NotFoundError) as error:
        client.responses.create(model="tiny", input=[{"type": "item_reference", "id": "msg_none"}])
    assert error.value.param == "input"


def wait_for_end(client, made):
    while made.status in ("queued", "in_progress"):
        made = client.responses.retrieve(made.id)
    return made


def test_a_response_is_made_in_the_background(server):
    client = server.client()
    request = dict(model="tiny", input="What is 17 + 25?", temperature=0)
    made = client.responses.create(**request, background=True)
    assert made.status == "queued" and made.background and made.output == []
    done = wait_for_end(client, made)
    assert done.status == "completed" and done.output_text == "17 + 25 = 42."
    assert client.responses.create(model="tiny", input="And?", previous_response_id=made.id, max_output_tokens=9).output
    assert client.responses.cancel(made.id).status == "completed"  # too late to cancel


def test_a_streamed_response_in_the_background_is_read_on_from_any_event(server):
    client = server.client()
    request = dict(model="tiny", input="What is 17 + 25?", temperature=0, background=True)
    with client.responses.create(**request, stream=True) as stream:
        begun = [event for event, _ in zip(stream, range(6))]  # then the connection is closed
    assert [event.type for event in begun[:3]] == ["response.created", "response.queued", "response.in_progress"]
    assert begun[0].response.status == "queued" and begun[2].response.status == "in_progress"
    made = begun[0].response
    rest = list(client.responses.retrieve(made.id, stream=True, starting_after=begun[-1].sequence_number))
    assert [event.sequence_number for event in begun + rest] == list(range(len(begun) + len(rest)))
    assert rest[-1].type == "response.completed" and rest[-1].response.output_text == "17 + 25 = 42."
    again = list(client.responses.retrieve(made.id, stream=True))
    assert again == begun + rest
    assert client.responses.retrieve(made.id) == rest[-1].response
    assert list(client.responses.retrieve(made.id, stream=True, starting_after=rest[-1].sequence_number)) == []
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id, stream=True)


def test_a_streamed_response_in_the_background_is_cancelled(server):
    client = server.client()
    stream = client.responses.create(model="tiny", input="Tell me everything.", background=True, stream=True, extra_body={"ignore_eos": True})
    made = next(iter(stream)).response
    assert client.responses.cancel(made.id).status == "cancelled"
    *_, last = stream
    assert last.type == "response.cancelled" and last.response["status"] == "cancelled"  # no type of the package
    assert wait_for_end(client, made).status == "cancelled"


def test_events_that_are_not_kept_are_refused(server):
    client = server.client()
    for fields in ({}, {"background": True}):
        made = wait_for_end(client, client.responses.create(model="tiny", input="Hi", max_output_tokens=2, **fields))
        with pytest.raises(openai.BadRequestError, match="made with background and stream"):
            client.responses.retrieve(made.id, stream=True)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_0", stream=True)


def test_a_response_in_the_background_is_cancelled_or_deleted(server):
    client = server.client()
    request = dict(model="tiny", input="Tell me everything.", background=True, extra_body={"ignore_eos": True})
    made = client.responses.create(**request)
    with pytest.raises(openai.BadRequestError, match="has not ended yet"):
        client.responses.create(model="tiny", input="Hi", previous_response_id=made.id)
    assert client.responses.cancel(made.id).status == "cancelled"
    assert wait_for_end(client, made).status == "cancelled"
    other = client.responses.create(**request)
    client.responses.delete(other.id)
    with pytest.raises(openai.NotFoundError):
        while True:
            client.responses.retrieve(other.id)
    ordinary = client.responses.create(model="tiny", input="Hi", max_output_tokens=2)
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(ordinary.id)
