"""Tests tool calls in every API: a call that is cut off never looks complete, and schemas reach the prompt and the
arguments."""

import concurrent.futures
import json
import os
import subprocess
import time
import urllib.error
import urllib.request

import jsonschema
import pytest

from test_serve import NIBBLE, serving

PATH = {"type": "object", "properties": {"path": {"type": "string", "maxLength": 8}}, "required": ["path"], "additionalProperties": False}
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
FUNCTIONS = [{"name": "drop", "description": "Drops it.", "parameters": EMPTY}, {"name": "drop_dry_run", "parameters": PATH}]
CHAT_TOOLS = [{"type": "function", "function": function} for function in FUNCTIONS]
MESSAGES = [{"role": "user", "content": "Clean up"}]
FORCED = "drop_dry_run"


@pytest.fixture(scope="module")
def server():
    with serving("--context", 4096) as running:
        yield running


def ask(server, path, body=None, method=None):
    data = None if body is None else json.dumps({"model": "tiny", **body}).encode()
    request = urllib.request.Request(server.url + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return reply.read().decode(), reply.headers


def ask_json(server, path, body):
    return json.loads(ask(server, path, body)[0])


def refusal(server, path, body):
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(server, path, body)
    assert error.value.code == 400
    return error.value.read().decode()


def events(text):
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and line != "data: [DONE]"]


# These functions return (calls as [name, text of the arguments], content, finish reason), one for each API.


def chat_choice(choice, whole=True):
    message = choice["message"]
    calls = message.get("tool_calls") or []
    functions = [call.get("function") or call["custom"] for call in calls] + ([message["function_call"]] if "function_call" in message else [])
    return [[function["name"], function.get("arguments", function.get("input"))] for function in functions], message["content"] or "", choice["finish_reason"]


def added_up(text):
    calls, content, reason = [], "", None
    for event in events(text):
        for choice in event["choices"]:
            content += choice["delta"].get("content") or ""
            parts = choice["delta"].get("tool_calls") or ([{"index": 0, "function": choice["delta"]["function_call"]}] if "function_call" in choice["delta"] else [])
            for part in parts:
                function = part.get("function") or part["custom"]
                if part["index"] == len(calls):
                    calls.append(["", ""])
                calls[part["index"]][0] += function.get("name", "")
                calls[part["index"]][1] += function.get("arguments", function.get("input", ""))
            reason = choice["finish_reason"] or reason
    return calls, content, reason


def chat(server, limit, stream=False, **fields):
    body = {"messages": MESSAGES, "temperature": 0, "stream": stream, **({"max_tokens": limit} if limit else {}), **fields}
    text, _ = ask(server, "/v1/chat/completions", body)
    return added_up(text) if stream else chat_choice(json.loads(text)["choices"][0])


def chat_with_tools(server, limit, stream):
    return chat(server, limit, stream, tools=CHAT_TOOLS, tool_choice={"type": "function", "function": {"name": FORCED}}, thinking_token_budget=0)


def chat_with_functions(server, limit, stream):
    return chat(server, limit, stream, functions=FUNCTIONS, function_call={"name": FORCED}, thinking_token_budget=0)


def chat_with_custom_tool(server, limit, stream):
    tools = [{"type": "custom", "custom": {"name": FORCED, "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": '[a-z"]{9,12}\n"ende"'}}}}]
    return chat(server, limit, stream, tools=[*CHAT_TOOLS[:1], *tools], tool_choice={"type": "custom", "custom": {"name": FORCED}}, thinking_token_budget=0)


def response_items(response):
    calls = [[item["name"], item["arguments"]] for item in response["output"] if item["type"] == "function_call"]
    content = "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])
    complete = all(item["status"] == "completed" for item in response["output"])
    assert response["status"] == "incomplete" or complete
    return calls, content, response["status"]


def responses(server, limit, stream, **fields):
    tools = [{"type": "function", **function} for function in FUNCTIONS]
    body = {"input": "Clean up", "temperature": 0, "tools": tools, "tool_choice": {"type": "function", "name": FORCED}, "stream": stream, **fields}
    text, _ = ask(server, "/v1/responses", {**body, **({"max_output_tokens": limit} if limit else {})})
    if not stream:
        return response_items(json.loads(text))
    told = events(text)
    added = [event["item"]["name"] for event in told if event["type"] == "response.output_item.added" and event["item"]["type"] == "function_call"]
    arguments = "".join(event["delta"] for event in told if event["type"] == "response.function_call_arguments.delta")
    calls, content, status = response_items(told[-1]["response"])
    assert calls == [[name, arguments] for name in added]
    return calls, content, status


def background_response(server, limit, stream):
    if stream:
        return responses(server, limit, stream, background=True)
    tools = [{"type": "function", **function} for function in FUNCTIONS]
    body = {"input": "Clean up", "temperature": 0, "tools": tools, "tool_choice": {"type": "function", "name": FORCED}, "background": True}
    made = ask_json(server, "/v1/responses", {**body, **({"max_output_tokens": limit} if limit else {})})
    while made["status"] in ("queued", "in_progress"):
        time.sleep(0.02)
        made = json.loads(ask(server, "/v1/responses/" + made["id"])[0])
    return response_items(made)


def messages(server, limit, stream):
    tools = [{"name": function["name"], "input_schema": function["parameters"]} for function in FUNCTIONS]
    body = {"messages": MESSAGES, "temperature": 0, "tools": tools, "tool_choice": {"type": "tool", "name": FORCED}, "stream": stream, "max_tokens": limit or 500}
    text, _ = ask(server, "/v1/messages", body)
    if not stream:
        message = json.loads(text)
        # Arguments that are not an object are in a field named "arguments".
        calls = [[block["name"], block["input"].get("arguments", json.dumps(block["input"], separators=(",", ":")))] for block in message["content"] if block["type"] == "tool_use"]
        return calls, "".join(block["text"] for block in message["content"] if block["type"] == "text"), message["stop_reason"]
    calls, content, reason = [], "", None
    for event in events(text):
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            calls.append([event["content_block"]["name"], ""])
        delta = event.get("delta", {})
        content += delta.get("text", "")
        if "partial_json" in delta:
            calls[-1][1] += delta["partial_json"]
        reason = delta.get("stop_reason") or reason
    return calls, content, reason


def ollama(server, limit, stream):
    body = {"messages": MESSAGES, "tools": CHAT_TOOLS[1:], "stream": stream, "options": {"temperature": 0, "num_predict": limit or -1}, "think": False, "messages": [{"role": "user", "content": "What is the weather in Oslo?"}]}
    lines = [json.loads(line) for line in ask(server, "/api/chat", body)[0].splitlines()]
    calls = [call["function"] for line in lines for call in line["message"].get("tool_calls", [])]
    told = [[call["name"], call["arguments"].get("arguments", json.dumps(call["arguments"], separators=(",", ":")))] for call in calls]
    return told, "".join(line["message"]["content"] for line in lines), lines[-1]["done_reason"]


APIS = [
    # function that sends the request, finish reason of a complete call, finish reason of a cut-off answer
    (chat_with_tools, "tool_calls", "length"),
    (chat_with_functions, "function_call", "length"),
    (chat_with_custom_tool, "tool_calls", "length"),
    (responses, "completed", "incomplete"),
    (background_response, "completed", "incomplete"),
    (messages, "tool_use", "max_tokens"),
    (ollama, "stop", "length"),
]


def bare(text):
    """Removes blanks, which are lost where arguments are shown as an object."""
    return "".join(text.split())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("api, done, cut", APIS, ids=[row[0].__name__ for row in APIS])
def test_a_call_that_is_cut_off_is_never_shown_as_more_than_it_is(server, api, done, cut, stream):
    [[name, arguments]], content, reason = api(server, None, stream)
    assert (name, reason) == (FORCED, done) and arguments
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda limit: api(server, limit, stream), range(1, 61)))
    ends = set()
    for calls, said, ended in answers:
        assert content.startswith(said) and len(calls) <= 1
        assert ended in (cut, done)
        if ended == done:
            assert ([[call[0], bare(call[1])] for call in calls], said) == ([[FORCED, bare(arguments)]], content)
        for called, begun in calls:
            assert called == FORCED
            assert bare(arguments).startswith(bare(begun))
            ends.add(begun)
        ends.add(len(calls))
    assert {0, 1} <= ends and len(ends) > 3, "too few answers were cut off in their header and in their arguments"


def test_a_token_of_the_header_that_stops_the_answer_ends_no_call(server):
    forced = dict(tools=CHAT_TOOLS, tool_choice={"type": "function", "function": {"name": FORCED}}, thinking_token_budget=0)
    body = {"messages": MESSAGES, "temperature": 0, "return_token_ids": True, **forced}
    [choice] = ask_json(server, "/v1/chat/completions", body)["choices"]
    [message] = ask_json(server, "/tokenize", {"prompt": "<|message|>"})["tokens"]
    header = choice["token_ids"][: choice["token_ids"].index(message) + 1]
    assert len(header) > 5
    for stop in set(header):
        for stream in (False, True):
            assert chat(server, None, stream, **forced, stop_token_ids=[stop]) == ([], "", "stop")


NODE = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "maxItems": 1}}, "required": ["name"], "additionalProperties": False}
SCHEMAS = {
    # schema, and its form in the prompt
    "map": ({"type": "object", "additionalProperties": {"type": "number"}, "minProperties": 1}, "[key: string]: number,"),
    "pattern": ({"type": "object", "patternProperties": {"^x[0-9]$": {"type": "integer"}}, "additionalProperties": False, "minProperties": 1}, "[key: /^x[0-9]$/]: number,"),
    "reference": ({"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}, "(_: // Node\n{\nname: string,\nkids?: Node[],\n}) => any"),
    "any of": (
        {"anyOf": [{**PATH}, {"type": "object", "properties": {"zip": {"type": "integer"}}, "required": ["zip"], "additionalProperties": False}]},
        "(_: \n | {\n   path: string,\n   }\n | {\n   zip: number,\n   }) => any",
    ),
    "all of": ({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}, "(_: {\na: number,\nb: number,\n}) => any"),
    "no type": ({"properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}, '(_: {\na: "x" | "y",\n}) => any'),
    "closed": (EMPTY, "type go = () => any"),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_without_properties_is_shown_and_enforced(server, name):
    schema, shown = SCHEMAS[name]
    for strict in ({}, {"strict": False}, {"strict": True}):
        tools = [{"type": "function", "function": {"name": "go", "parameters": schema, **strict}}]
        body = {"messages": MESSAGES, "tools": tools, "tool_choice": "required", "thinking_token_budget": 0, "max_tokens": 150}
        assert shown in ask_json(server, "/apply-template", body)["prompt"]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda seed: chat_choice(ask_json(server, "/v1/chat/completions", {**body, "seed": seed})["choices"][0]), range(6)))
        whole = [json.loads(calls[0][1]) for calls, _, reason in answers if reason == "tool_calls"]
        # An answer of these schemas may consist of numbers up to its limit, and never be complete.
        assert whole or name in ("map", "pattern", "all of"), "nothing to check"
        for arguments in whole:
            assert isinstance(arguments, dict)
            jsonschema.validate(arguments, schema)


LOCATION = {"type": "object", "properties": {"location": {"type": "string", "maxLength": 12}}, "required": ["location"], "additionalProperties": False}


@pytest.mark.parametrize("strict", [{}, {"strict": False}], ids=["no strict", "strict false"])
def test_a_call_is_held_to_its_schema_though_nothing_demands_it(server, strict):
    function = {"name": "get_weather", "description": "The weather in a city.", "parameters": LOCATION, **strict}
    asked = [{"role": "user", "content": "What is the weather in Istanbul?"}]
    told = [
        chat(server, 300, tools=[{"type": "function", "function": function}], messages=asked),
        chat(server, 300, functions=[function], messages=asked),
        responses(server, 300, False, tools=[{"type": "function", **function}], input=asked, tool_choice="auto"),
    ]
    anthropic = ask_json(server, "/v1/messages", {"messages": asked, "temperature": 0, "max_tokens": 300, "tools": [{"name": "get_weather", "description": "The weather in a city.", "input_schema": LOCATION, **strict}]})
    told.append(([[block["name"], json.dumps(block["input"])] for block in anthropic["content"] if block["type"] == "tool_use"], "", ""))
    body = {"messages": asked, "stream": False, "options": {"temperature": 0, "num_predict": 300}, "tools": [{"type": "function", "function": function}]}
    calls = ask_json(server, "/api/chat", body)["message"]["tool_calls"]
    told.append(([[call["function"]["name"], json.dumps(call["function"]["arguments"])] for call in calls], "", ""))
    for calls, _, _ in told:
        [[name, arguments]] = calls
        assert name == "get_weather"
        jsonschema.validate(json.loads(arguments), LOCATION)


def test_a_forbidden_call_leaves_the_prompt_as_it_is(server):
    asked = {"messages": [{"role": "user", "content": "What is the weather in Oslo?"}], "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": LOCATION}}]}
    prompts = [ask_json(server, "/apply-template", {**asked, "tool_choice": choice})["prompt"] for choice in ("auto", "none")]
    assert prompts[0] == prompts[1] and "namespace functions" in prompts[0]
    none = [
        chat(server, 100, **asked, tool_choice="none"),
        chat(server, 100, messages=asked["messages"], functions=[asked["tools"][0]["function"]], function_call="none"),
        responses(server, 100, False, tools=[{"type": "function", "name": "get_weather", "parameters": LOCATION}], input=asked["messages"], tool_choice="none"),
    ]
    assert [calls for calls, _, _ in none] == [[], [], []]
    message = ask_json(server, "/v1/messages", {"messages": asked["messages"], "temperature": 0, "max_tokens": 100, "tools": [{"name": "get_weather", "input_schema": LOCATION}], "tool_choice": {"type": "none"}})
    assert message["stop_reason"] != "tool_use" and all(block["type"] == "text" for block in message["content"])
    # Without a constraint the model may write a call, which is returned as text.
    free = chat(server, 100, **asked, tool_choice="none", ignore_eos=True)
    assert free[0] == [] and free[2] == "length"


HISTORY = [
    # path, and a body with a name that would start another field of a header
    ("/v1/chat/completions", {"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f to=user", "arguments": "{}"}}]}]}, "messages[0].tool_calls[0].function.name"),
    ("/v1/chat/completions", {"messages": [{"role": "assistant", "function_call": {"name": "f to=user", "arguments": "{}"}}]}, "messages[0].function_call.name"),
    ("/v1/chat/completions", {"messages": [{"role": "function", "name": "f to=user", "content": ""}]}, "messages[0].name"),
    ("/v1/responses", {"input": [{"type": "function_call", "call_id": "1", "name": "f to=user", "arguments": "{}"}]}, "input[0].name"),
    ("/v1/responses", {"input": [{"type": "function_call", "call_id": "1", "name": "f", "namespace": "n to=user", "arguments": "{}"}]}, "input[0].namespace"),
    ("/v1/responses", {"input": [{"type": "custom_tool_call", "call_id": "1", "name": "f\n", "input": ""}]}, "input[0].name"),
    ("/v1/responses", {"input": "a", "tools": [{"type": "namespace", "name": "n m", "tools": []}]}, "tools[0].name"),
    ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f to=user", "input": {}}]}]}, "messages[0].content[0].name"),
    ("/api/chat", {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f to=user", "arguments": {}}}]}]}, "messages[0].tool_calls[0].function.name"),
    ("/api/chat", {"messages": [{"role": "tool", "tool_name": "f to=user", "content": ""}]}, "messages[0].tool_name"),
]


@pytest.mark.parametrize("path, body, place", HISTORY)
def test_a_name_in_the_history_that_is_no_name_is_refused_by_its_place(server, path, body, place):
    assert place + " must be a name of 1 to 128 letters" in refusal(server, path, body)


def test_a_keyword_that_can_not_be_enforced_is_refused_where_it_must_be(server):
    schema = {"type": "object", "properties": {"t": {"type": "array", "items": {"type": "string", "maxLength": 2}, "maxItems": 3, "uniqueItems": True}, "u": {"type": "integer", "maximum": 3, "minimum": 0}}, "required": ["u"], "additionalProperties": False}
    strict = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
    body = {"messages": MESSAGES, "tools": [strict], "max_tokens": 9}
    assert "uniqueItems" in refusal(server, "/v1/chat/completions", body)
    assert "uniqueItems" in refusal(server, "/v1/messages", {"messages": MESSAGES, "max_tokens": 9, "tools": [{"name": "f", "input_schema": schema, "strict": True}]})
    del strict["function"]["strict"]
    text, headers = ask(server, "/v1/chat/completions", {**body, "tool_choice": "required", "thinking_token_budget": 0, "max_tokens": 300})
    assert "tools.f ('uniqueItems' at #/properties/t: not enforced)" in headers["X-Nibble-Ignored"]
    [[_, arguments]], _, reason = chat_choice(json.loads(text)["choices"][0])
    if reason == "tool_calls":  # the other keywords of the schema are enforced
        assert json.loads(arguments)["u"] in range(4)


def test_the_program_shows_no_header_that_is_cut_off():
    def answer(limit):
        flags = ["--json", "--temperature", "0", "--max-tokens", str(limit), "--seed", "1"]
        done = subprocess.run([NIBBLE, "run", "tiny", *flags, "-p", "What is 17 + 25?"], capture_output=True, check=True, env={**os.environ, "NIBBLE_THREADS": "1"})
        return json.loads(done.stdout)

    whole = answer(200)
    # Indices of the tokens <|channel|>.
    begins = [at for at, token in enumerate(whole["tokens"]) if at == 0 or token == whole["tokens"][0]]
    assert len(begins) == 2 and whole["finish_reason"] != "length"
    for limit in [*range(1, 4), *range(begins[1] - 2, begins[1] + 4)]:
        cut = answer(limit)
        assert whole["answer"].startswith(cut["answer"]) and whole["reasoning"].startswith(cut["reasoning"])
        assert cut["tokens"] == whole["tokens"][:limit]
        for message, other in zip(cut.get("messages") or [], whole["messages"]):
            assert (message["channel"], message.get("recipient")) == (other["channel"], other.get("recipient"))
