"""Tests the server with the official openai package, and with raw sockets for requests that the package would never
send."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import openai
import pytest

NIBBLE = os.environ["NIBBLE_BINARY"]
QUESTION = [{"role": "user", "content": "What is 17 + 25?"}]
CONTROL = re.compile(r"<\|(start|end|message|channel|call|return|constrain)\|>")
ENDLESS = {"prompt": "It was", "max_tokens": 30000, "temperature": 1, "ignore_eos": True}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


class Server:
    def __init__(self, process, port):
        self.process, self.port = process, port
        self.url = f"http://127.0.0.1:{port}"

    def client(self, key="none"):
        return openai.OpenAI(base_url=self.url + "/v1", api_key=key, max_retries=0, timeout=60)

    def send(self, request):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall(request)
        return connection

    def post(self, path, body, headers=""):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
        return self.send(head.encode() + data)

    def health(self, path="/health"):
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as reply:
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code


@contextlib.contextmanager
def serving(*flags, name="tiny", port=0):
    process = subprocess.Popen(
        [NIBBLE, "serve", "tiny", "--port", str(port), *map(str, flags)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NIBBLE_THREADS": "1", "NIBBLE_DATE": "2026-11-22"},  # the same answers every day
    )
    try:
        process.stdout.readline()
        line = process.stdout.readline().decode()
        port = re.fullmatch(rf"Serving {name} on http://127\.0\.0\.1:(\d+)\n", line)
        assert port, line + process.stderr.read().decode()
        yield Server(process, int(port[1]))
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def status_of(connection):
    """Returns the status of the answer on a raw connection."""
    line = connection.makefile("rb").readline().decode()
    return int(line.split()[1])


def first_event(connection):
    """Reads the rest of a streamed answer, after its first event."""
    answer = connection.makefile("rb")
    for line in answer:
        if line.startswith(b"data:"):
            return answer
    raise AssertionError("the answer has no event")


def added_up(stream, index=0):
    """Accumulates the chunks of one choice of a chat stream."""
    content, reasoning, calls, reasons, usage, ids = "", "", {}, [], None, set()
    for chunk in stream:
        ids.add(chunk.id)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            if choice.index != index:
                continue
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or []:
                name, arguments = calls.get(call.index, ("", ""))
                calls[call.index] = (name + (call.function.name or ""), arguments + (call.function.arguments or ""))
            if choice.finish_reason:
                reasons.append(choice.finish_reason)
    assert len(ids) == 1 and len(reasons) == 1
    return content, reasoning, list(calls.values()), reasons[0], usage


# chat


def test_a_question_is_answered_and_its_reasoning_told_apart(server):
    reply = server.client().chat.completions.create(model="tiny", messages=QUESTION, temperature=0)
    choice = reply.choices[0]
    assert choice.message.content == "17 + 25 = 42."
    assert "carry" in choice.message.reasoning_content
    assert choice.message.reasoning == choice.message.reasoning_content
    assert choice.finish_reason == "stop" and choice.message.tool_calls is None
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens > 80


@pytest.mark.parametrize("seed", range(8))
def test_a_stream_adds_up_to_the_whole_answer(server, seed):
    # At this temperature the model also generates malformed harmony.
    request = dict(model="tiny", messages=QUESTION, temperature=1.8, seed=seed, max_tokens=80, tools=TOOLS)
    whole = server.client().chat.completions.create(**request)
    message = whole.choices[0].message
    content, reasoning, calls, reason, usage = added_up(
        server.client().chat.completions.create(**request, stream=True, stream_options={"include_usage": True})
    )
    assert content == (message.content or "")
    assert reasoning == (getattr(message, "reasoning_content", None) or "")
    assert calls == [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
    assert reason == whole.choices[0].finish_reason
    assert usage.total_tokens == whole.usage.total_tokens
    assert usage.completion_tokens_details == whole.usage.completion_tokens_details
    assert not CONTROL.search(content)


def test_tools_go_in_and_calls_come_out(server):
    request = dict(
        model="tiny",
        messages=[{"role": "user", "content": "What is the weather in Oslo?"}],
        tools=TOOLS,
        temperature=0,
        max_tokens=120,
    )
    reply = server.client().chat.completions.create(**request)
    [call] = reply.choices[0].message.tool_calls
    assert reply.choices[0].finish_reason == "tool_calls"
    assert call.function.name == "get_weather" and call.id.startswith("call_")
    assert "city" in json.loads(call.function.arguments)
    _, _, calls, reason, _ = added_up(server.client().chat.completions.create(**request, stream=True))
    assert calls == [(call.function.name, call.function.arguments)] and reason == "tool_calls"
    # Then the result is sent back.
    told = request["messages"] + [
        reply.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 7}'},
    ]
    answer = server.client().chat.completions.create(**{**request, "messages": told})
    assert answer.usage.prompt_tokens > reply.usage.prompt_tokens
    # tool_choice "none" allows no call, but leaves the tools in the prompt.
    none = server.client().chat.completions.create(**request, tool_choice="none")
    assert none.choices[0].message.tool_calls is None and none.usage.prompt_tokens == reply.usage.prompt_tokens


def test_functions_are_called_as_they_were_before_there_were_tools(server):
    client = server.client()
    request = dict(model="tiny", messages=[{"role": "user", "content": "What is the weather in Oslo?"}], temperature=0, max_tokens=120)
    [call] = client.chat.completions.create(**request, tools=TOOLS).choices[0].message.tool_calls
    reply = client.chat.completions.create(**request, functions=[TOOLS[0]["function"]]).choices[0]
    assert reply.finish_reason == "function_call" and reply.message.tool_calls is None
    assert (reply.message.function_call.name, reply.message.function_call.arguments) == (call.function.name, call.function.arguments)
    name, arguments = "", ""
    for chunk in client.chat.completions.create(**request, functions=[TOOLS[0]["function"]], stream=True):
        if part := chunk.choices[0].delta.function_call:
            name, arguments = name + (part.name or ""), arguments + (part.arguments or "")
    assert (name, arguments) == (call.function.name, call.function.arguments)
    told = [*request["messages"], reply.message.model_dump(exclude_none=True), {"role": "function", "name": name, "content": "7"}]
    assert client.chat.completions.create(**{**request, "messages": told}).usage.prompt_tokens > 0


def test_a_custom_tool_takes_a_text(server):
    client = server.client()
    custom = [{"type": "custom", "custom": {"name": "get_weather", "description": "The weather in a city."}}]
    request = dict(model="tiny", messages=[{"role": "user", "content": "What is the weather in Oslo?"}], temperature=0, max_tokens=150)
    [call] = client.chat.completions.create(**request, tools=custom).choices[0].message.tool_calls
    assert call.type == "custom" and call.custom.name == "get_weather" and call.custom.input
    parts = []
    for chunk in client.chat.completions.create(**request, tools=custom, stream=True):
        for part in chunk.choices[0].delta.tool_calls or []:
            parts.append(part.model_extra["custom"])
    assert parts[0]["name"] == "get_weather" and "".join(part["input"] for part in parts) == call.custom.input
    told = [*request["messages"], {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]}, {"role": "tool", "tool_call_id": call.id, "content": "7"}]
    assert client.chat.completions.create(**{**request, "messages": told}, tools=custom).usage.prompt_tokens > 0


@pytest.mark.parametrize(
    "syntax, definition, pattern",
    [
        ("lark", 'start: "north" | "south" rest\nrest: "\\n" /[0-9]{3}/ "\\""', 'north|south\n[0-9]{3}"'),
        ("regex", r'[a-f]{4}\\\n"é', r'[a-f]{4}\\\n"é'),
    ],
)
def test_the_text_of_a_custom_tool_is_of_its_grammar(server, syntax, definition, pattern):
    grammar = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    custom = [{"type": "custom", "custom": {"name": "get_weather", "description": "The weather in a city.", "format": grammar}}]
    messages = [{"role": "user", "content": "What is the weather in Oslo?"}]
    for seed in range(4):
        raw = server.client().chat.completions.with_raw_response.create(
            model="tiny", messages=messages, temperature=1.2, seed=seed, max_tokens=400, tools=custom, tool_choice="required"
        )
        choice = raw.parse().choices[0]
        if choice.finish_reason == "length":
            continue
        assert "x-nibble-ignored" not in raw.headers
        assert re.fullmatch(pattern, choice.message.tool_calls[0].custom.input), choice


def test_a_grammar_of_a_custom_tool_that_can_not_be_enforced_is_told(server):
    for syntax, definition, told in [("lark", "start: X", "not defined"), ("regex", "(?=a)", "lookaround")]:
        grammar = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
        custom = [{"type": "custom", "custom": {"name": "edit", "format": grammar}}]
        raw = server.client().chat.completions.with_raw_response.create(
            model="tiny", messages=[{"role": "user", "content": "Hi"}], max_tokens=8, tools=custom
        )
        assert told in raw.headers["x-nibble-ignored"] and "tools.edit.format" in raw.headers["x-nibble-ignored"]
    with pytest.raises(openai.BadRequestError, match="syntax"):
        grammar = {"type": "grammar", "grammar": {"syntax": "peg", "definition": "x"}}
        server.client().chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Hi"}], tools=[{"type": "custom", "custom": {"name": "edit", "format": grammar}}])


def test_a_prompt_has_all_tools_so_that_the_choice_among_them_leaves_the_prefix_cache_as_it_is(server):
    other = {"type": "function", "function": {"name": "other", "parameters": {}}}
    def size(**fields):
        return server.client().chat.completions.create(model="tiny", messages=QUESTION, max_tokens=1, **fields).usage.prompt_tokens
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "get_weather"}}]}}
    assert size(tools=TOOLS) < size(tools=[*TOOLS, other], tool_choice=allowed) == size(tools=[*TOOLS, other])


def test_a_message_that_says_nothing_or_refuses_is_read(server):
    for said in ({"content": None}, {"content": None, "refusal": "No."}, {"content": [{"type": "refusal", "refusal": "No."}]}):
        told = [*QUESTION, {"role": "assistant", **said}, *QUESTION]
        reply = server.client().chat.completions.create(model="tiny", messages=told, max_tokens=1)
        assert reply.choices[0].message.refusal is None


def test_log_probabilities_are_those_of_the_content(server):
    request = dict(model="tiny", messages=QUESTION, temperature=0, logprobs=True, top_logprobs=2)
    reply = server.client().chat.completions.create(**request)
    rows = reply.choices[0].logprobs.content
    assert b"".join(bytes(row.bytes) for row in rows).decode() == reply.choices[0].message.content
    assert all(row.logprob <= 0 and len(row.top_logprobs) == 2 for row in rows)
    streamed = []
    for chunk in server.client().chat.completions.create(**request, stream=True):
        if chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.content
    assert [row.token for row in streamed] == [row.token for row in rows]


@pytest.mark.parametrize("stop", [None, " = "])
def test_several_choices_are_told_apart_also_in_a_stream(server, stop):
    request = dict(model="tiny", messages=QUESTION, temperature=2, seed=3, max_tokens=90, n=4, stop=stop)
    whole = server.client().chat.completions.create(**request)
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    messages = [(c.message.content, getattr(c.message, "reasoning", None) or "") for c in whole.choices]
    assert len(set(messages)) > 1
    chunks = list(
        server.client().chat.completions.create(**request, stream=True, stream_options={"include_usage": True})
    )
    for choice in whole.choices:
        content, reasoning, _, reason, usage = added_up(chunks, choice.index)
        assert (content, reasoning) == messages[choice.index]
        assert reason == choice.finish_reason
    # The first choice equals the answer with n = 1. Usage counts the prompt once, but tokens of all answers.
    alone = server.client().chat.completions.create(**{**request, "n": 1})
    assert alone.choices[0].message.content == messages[0][0]
    for told in (usage, whole.usage):
        assert told.prompt_tokens == alone.usage.prompt_tokens
        assert alone.usage.completion_tokens < told.completion_tokens <= 4 * 90
        assert told.completion_tokens_details == whole.usage.completion_tokens_details
    if not stop:  # with a stop string, the number of tokens that the other choices have by then varies
        assert usage.completion_tokens == whole.usage.completion_tokens


def test_reasoning_is_counted(server):
    low = server.client().chat.completions.create(model="tiny", messages=QUESTION, temperature=0)
    body = json.dumps({"prompt": low.choices[0].message.reasoning_content}).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url + "/tokenize", body)) as reply:
        assert low.usage.completion_tokens_details.reasoning_tokens == json.load(reply)["count"] > 0


def test_a_conversation_whose_reasoning_is_dropped_still_hits_the_prefix_cache():
    with serving() as server:
        client = server.client()
        messages = [{"role": "user", "content": "Sort these numbers: 31, 5, 88, 2, 17, 40, 9, 63. " * 8}]
        first = client.chat.completions.create(model="tiny", messages=messages, temperature=0)
        assert first.usage.prompt_tokens_details.cached_tokens == 0
        # A repeated prompt is cached except its last page, of which at least one token must be run.
        again = client.chat.completions.create(model="tiny", messages=messages, temperature=0)
        page = 32
        whole_pages = (first.usage.prompt_tokens - 1) // page * page
        assert again.usage.prompt_tokens_details.cached_tokens == whole_pages > 4 * page
        assert again.choices[0].message == first.choices[0].message
        # The next turn's prompt lacks the reasoning. Its part before that is the first prompt, which is
        # cached.
        assert first.choices[0].message.reasoning_content
        messages += [first.choices[0].message.model_dump(exclude_none=True), {"role": "user", "content": "And again?"}]
        second = client.chat.completions.create(model="tiny", messages=messages, temperature=0)
        assert second.usage.prompt_tokens_details.cached_tokens == first.usage.prompt_tokens // page * page


def test_without_a_prefix_cache_the_answer_is_the_same():
    answers = []
    for state in ("on", "off"):
        with serving("--prefix-cache", state) as server:
            for _ in range(2):
                reply = server.client().chat.completions.create(
                    model="tiny", messages=QUESTION, temperature=0, logprobs=True
                )
                answers.append(reply.choices[0])
        assert (reply.usage.prompt_tokens_details.cached_tokens > 0) == (state == "on")
    assert all(answer == answers[0] for answer in answers)


def test_a_stop_string_ends_the_content_before_it(server):
    reply = server.client().chat.completions.create(model="tiny", messages=QUESTION, temperature=0, stop=" = ")
    assert reply.choices[0].message.content == "17 + 25" and reply.choices[0].finish_reason == "stop"


def test_an_answer_without_room_is_cut_and_says_so(server):
    reply = server.client().chat.completions.create(
        model="tiny", messages=QUESTION, temperature=0, max_completion_tokens=5
    )
    assert reply.choices[0].finish_reason == "length" and reply.usage.completion_tokens == 5


# completions


def test_a_text_is_continued(server):
    client = server.client()
    request = dict(model="tiny", prompt="It was a", max_tokens=12, temperature=1, seed=5)
    whole = client.completions.create(**request)
    assert whole.usage.completion_tokens == 12 and whole.choices[0].finish_reason == "length"
    assert "".join(c.choices[0].text for c in client.completions.create(**request, stream=True)) == whole.choices[0].text
    assert client.completions.create(**request, echo=True).choices[0].text == "It was a" + whole.choices[0].text
    assert client.completions.create(**{**request, "seed": 6}).choices[0].text != whole.choices[0].text


def test_token_ids_are_a_prompt_too(server):
    body = json.dumps({"prompt": "It was a"}).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url + "/tokenize", body)) as reply:
        ids = json.load(reply)["tokens"]
    with urllib.request.urlopen(
        urllib.request.Request(server.url + "/detokenize", json.dumps({"tokens": ids}).encode())
    ) as reply:
        assert json.load(reply)["content"] == "It was a"
    client = server.client()
    texts = [
        client.completions.create(model="tiny", prompt=prompt, temperature=0, logprobs=1) for prompt in ("It was a", ids)
    ]
    assert texts[0].choices[0].text == texts[1].choices[0].text
    assert "".join(texts[0].choices[0].logprobs.tokens) == texts[0].choices[0].text


def test_several_prompts_and_choices_come_in_order(server):
    client = server.client()
    prompts = ["It was a", "What is"]
    alone = [
        client.completions.create(model="tiny", prompt=prompt, temperature=1, seed=5, max_tokens=6, n=2).choices
        for prompt in prompts
    ]
    request = dict(model="tiny", prompt=prompts, temperature=1, seed=5, max_tokens=6, n=2, echo=True)
    both = client.completions.create(**request)
    assert [choice.index for choice in both.choices] == [0, 1, 2, 3]
    texts = [prompt + choice.text for prompt, choices in zip(prompts, alone) for choice in choices]
    assert [choice.text for choice in both.choices] == texts
    assert both.usage.completion_tokens == 4 * 6
    streamed = [""] * 4
    for chunk in client.completions.create(**request, stream=True):
        streamed[chunk.choices[0].index] += chunk.choices[0].text
    assert streamed == texts


def test_what_changes_the_choice_of_tokens_arrives(server):
    client = server.client()
    request = dict(model="tiny", prompt="It was a", max_tokens=8, temperature=0, logprobs=0)
    plain = client.completions.create(**request).choices[0]
    body = json.dumps({"prompt": plain.logprobs.tokens[0]}).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url + "/tokenize", body)) as reply:
        [first] = json.load(reply)["tokens"]
    banned = client.completions.create(**request, logit_bias={str(first): -100}).choices[0]
    assert banned.logprobs.tokens[0] != plain.logprobs.tokens[0]
    forced = client.completions.create(**request, logit_bias={"65": 100}).choices[0]
    assert len(set(forced.logprobs.tokens)) == 1
    assert client.completions.create(**request, extra_body={"top_k": 1, "nobody_knows": 7}).choices[0] == plain


# refusals


def test_refusals_have_the_status_and_the_parameter(server):
    client = server.client()
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="other", messages=QUESTION)
    assert error.value.code == "model_not_found" and error.value.param == "model"
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="tiny", messages=QUESTION, temperature=7)
    assert error.value.param == "temperature" and "from 0 to 2, not 7" in str(error.value)
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="tiny", messages=[{"role": "nobody", "content": "x"}])
    assert error.value.param == "messages[0].role"
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="tiny", prompt="a " * 40000)
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="tiny", prompt=[10**6])
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="tiny", prompt="")
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="tiny", messages=[{"role": "user"}])
    assert error.value.param == "messages[0].content" and "is missing" in str(error.value)
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="tiny", prompt=["a"] * 100, n=100)
    assert "10000 answers at once" in str(error.value)


@pytest.mark.parametrize(
    "wish, param",
    [
        (dict(tool_choice="required"), "tool_choice"),
        (dict(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "other"}}), "tool_choice"),
        (dict(response_format={"type": "structural_tag"}), "response_format.type"),
        (dict(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"$dynamicRef": "#x"}}}), "response_format"),
        (dict(extra_body={"guided_regex": "(a"}), "guided_regex"),
        (dict(functions=[{"name": "f"}], function_call={"name": "g"}), "function_call"),
        (dict(top_logprobs=3), "top_logprobs"),
        (dict(logprobs=True, top_logprobs=21), "top_logprobs"),
        (dict(n=129), "n"),
        (dict(stop=[""]), "stop"),
        (dict(logit_bias={"x": 1}), "logit_bias"),
        (dict(logit_bias={"99999999": 1}), "logit_bias"),
        (dict(seed=0.5), "seed"),
        (dict(max_completion_tokens=0), "max_completion_tokens"),
        (dict(stream_options={"include_usage": True}), "stream_options"),
        (dict(reasoning_effort="huge"), "reasoning_effort"),
    ],
)
def test_what_is_not_built_or_can_not_be_is_refused_by_its_name(server, wish, param):
    with pytest.raises(openai.BadRequestError) as error:
        server.client().chat.completions.create(model="tiny", messages=QUESTION, **wish)
    assert error.value.param == param and error.value.type == "invalid_request_error"
    assert re.search(r"must be|vocabulary|not supported|is not closed", error.value.body["message"])


def test_what_changes_no_answer_is_ignored(server):
    request = dict(model="tiny", messages=QUESTION, temperature=0)
    plain = server.client().chat.completions.create(**request)
    more = dict(user="me", metadata={"a": "b"}, store=False, service_tier="auto", parallel_tool_calls=True, seed=3)
    told = server.client().chat.completions.create(**request, **more, extra_body={"chat_template_kwargs": {}})
    assert told.choices == plain.choices


@pytest.mark.parametrize(
    "request_bytes, status",
    [
        (b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"hello\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20000 + b"\r\n\r\n", 431),
        (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n{", 400),
        (b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n\"\xff\"", 400),
    ],
)
def test_bad_http_gets_an_error_and_harms_nobody(server, request_bytes, status):
    assert status_of(server.send(request_bytes)) == status
    assert server.health() == 200


def test_a_connection_is_kept_for_the_next_request(server):
    connection = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
    assert status_of(connection) == 200
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert connection.makefile("rb").read().endswith(b'{"status":"ok"}\n')


# limits and life cycle


def test_a_client_that_goes_frees_its_place():
    with serving("--max-sequences", 1, "--max-queue", 0) as server:
        for request in (ENDLESS, {**ENDLESS, "stream": True}):
            connection = server.post("/v1/completions", request)
            time.sleep(0.2)
            with pytest.raises(openai.RateLimitError) as error:
                server.client().completions.create(model="tiny", prompt="a")
            assert error.value.response.headers["retry-after"] == "1"
            connection.close()
            end = time.time() + 10
            while True:
                try:
                    server.client().completions.create(model="tiny", prompt="a", max_tokens=1)
                    break
                except openai.RateLimitError:
                    assert time.time() < end
                    time.sleep(0.02)


def test_without_the_key_only_health_answers(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("first key\n\nsecond\n")
    with serving("--api-key", "third", "--api-key-file", keys) as server:
        assert server.health() == 200
        for key in ("first key", "second", "third"):
            assert server.client(key).models.list().data[0].id == "tiny"
        for header in ("X-Api-Key", "api-key", "x-api-key"):
            assert status_of(server.send(f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{header}: second\r\n\r\n".encode())) == 200
            assert status_of(server.send(f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{header}: x\r\n\r\n".encode())) == 401
        for key in ("first", "secondx", "x", ""):
            with pytest.raises(openai.AuthenticationError):
                server.client(key or "-").models.list()
        for path in ("/version", "/tokenize", "/nowhere"):
            assert status_of(server.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())) == 401


def test_a_model_has_as_many_names_as_it_is_given():
    with serving("--served-model-name", "org/first", "--served-model-name", "second", name="org/first") as server:
        client = server.client()
        assert [model.id for model in client.models.list()] == ["org/first", "second"]
        for name in ("org/first", "second"):
            assert client.models.retrieve(name).id == name
            assert client.completions.create(model=name, prompt="a", max_tokens=1).model == "org/first"
        with pytest.raises(openai.NotFoundError) as error:
            client.models.retrieve("third")
        assert error.value.code == "model_not_found"


@pytest.mark.parametrize("path", ["/models", "/models/tiny", "/chat/completions", "/completions", "/responses"])
def test_paths_are_served_without_their_version_too(server, path):
    short = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
    key, value = {"chat": ("messages", QUESTION), "completions": ("prompt", "a")}.get(path.split("/")[1], ("input", "a"))
    body = {key: value, "max_tokens": 1}
    answer = short.get(path, cast_to=object) if "models" in path else short.post(path, body=body, cast_to=object)
    assert answer["object"] in ("list", "model", "chat.completion", "text_completion", "response")


def resident_bytes(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10


def test_memory_that_requests_took_is_given_back():
    with serving() as server:
        client = server.client()
        client.completions.create(model="tiny", prompt="a", max_tokens=1)
        before = resident_bytes(server)
        bodies = [server.post("/tokenize", {"prompt": f"{i} " + "word and word " * 200_000}) for i in range(8)]
        for connection in bodies:
            connection.makefile("rb").read(1)
            connection.close()
        most = resident_bytes(server)
        end = time.time() + 30
        while resident_bytes(server) > before + (32 << 20):
            assert time.time() < end, (before, most, resident_bytes(server))
            time.sleep(0.2)


def test_sigterm_lets_what_runs_end_and_refuses_the_rest():
    with serving("--max-sequences", 2) as server:
        connection = server.post("/v1/completions", {**ENDLESS, "max_tokens": 600, "stream": True})
        answer = first_event(connection)
        server.process.send_signal(signal.SIGTERM)
        end = time.time() + 5
        while server.health() != 503:
            assert time.time() < end
        with pytest.raises(openai.APIStatusError) as error:
            server.client().completions.create(model="tiny", prompt="a")
        assert error.value.status_code == 503
        assert b"data: [DONE]" in answer.read()
        assert server.process.wait(timeout=10) == 0


def test_after_the_timeout_what_runs_is_cancelled_and_told_so():
    with serving("--shutdown-timeout", 0) as server:
        whole = server.post("/v1/completions", ENDLESS)
        stream = first_event(server.post("/v1/completions", {**ENDLESS, "stream": True}))
        server.process.send_signal(signal.SIGTERM)
        assert status_of(whole) == 503
        assert b'"error":{"message":"the server shut down' in stream.read()
        assert server.process.wait(timeout=10) == 130


def test_in_the_delay_requests_are_taken_though_the_server_is_not_ready():
    with serving("--shutdown-delay", 2, "--api-key", "secret") as server:
        assert (server.health(), server.health("/live")) == (200, 200)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        while server.health() != 503:
            assert time.monotonic() < began + 1
        assert server.health("/live") == 200
        reply = server.client("secret").completions.with_raw_response.create(model="tiny", prompt="a", max_tokens=2)
        assert reply.parse().usage.completion_tokens == 2
        assert reply.headers["connection"] == "close"  # so the next request goes to another server
        assert server.process.wait(timeout=10) == 0 and time.monotonic() > began + 2


def test_a_second_signal_ends_at_once_in_the_delay_too():
    with serving("--shutdown-delay", 60) as server:
        server.process.send_signal(signal.SIGTERM)
        while server.health() != 503:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=10) == 130


def test_a_signal_while_the_model_loads_ends_with_a_code():
    """The program itself must exit on the signal: for the first process of a container, the kernel would ignore it."""
    process = subprocess.Popen([NIBBLE, "serve", "tiny", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout.readline().startswith(b"Loading")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 130
    finally:
        process.kill()
        process.communicate()


def test_a_second_signal_ends_at_once():
    with serving() as server:
        stream = first_event(server.post("/v1/completions", {**ENDLESS, "stream": True}))
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=10) == 130
        stream.close()


def test_the_log_has_requests_and_no_texts():
    with serving("--log-level", "debug") as server:
        connection = server.post(
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "xyzzy"}], "max_tokens": 3},
            "X-Request-Id: mine-7\r\n",
        )
        assert status_of(connection) == 200
        server.process.send_signal(signal.SIGTERM)
        told = server.process.communicate(timeout=10)[1].decode()
        assert "mine-7 POST /v1/chat/completions 200" in told and "xyzzy" not in told


@pytest.mark.parametrize(
    "flags, told",
    [
        (["--api-key-file", "/nowhere"], "--api-key-file '/nowhere' can't be read: No such file"),
        (["--api-key-file", "/dev/null"], "/dev/null: is a device; expected a file"),
        (["--api-key", ""], "--api-key: the key is empty"),
        (["--host", "example.com"], "--host 'example.com': expected an address"),
        (["--max-sequences", "0"], "--max-sequences"),
        (["--contxt=4096"], "unknown flag '--contxt=4096': did you mean --context? See 'nibble serve --help'"),
        (["--parallel", "0"], "--max-sequences '0'"),
        (["--max-model-len", "999999"], "--context 999999: this model supports at most 131072 tokens"),
        (["--max-num-seqs", "0"], "--max-sequences '0'"),
        (["--max-num-batched-tokens", "0"], "--max-batch-tokens '0'"),
        (["--context", "999999"], "--context 999999: this model supports at most 131072 tokens"),
    ],
)
def test_a_flag_that_can_not_be_used_is_one_clear_line(flags, told):
    done = subprocess.run([NIBBLE, "serve", "tiny", "--port", "0", *flags], capture_output=True, timeout=60)
    assert done.returncode == 2 and done.stdout == b""
    assert told in done.stderr.decode() and done.stderr.count(b"\n") == 1


def test_an_address_in_use_is_one_clear_line(server):
    done = subprocess.run([NIBBLE, "serve", "tiny", "--port", str(server.port)], capture_output=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.decode().startswith(f"nibble: can't listen on 127.0.0.1:{server.port}")
