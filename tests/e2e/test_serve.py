"""The server as clients meet it: the official openai package, and raw sockets for what that would never send."""

import contextlib
import json
import os
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
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
        return self.send(head.encode() + data)

    def health(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=30) as reply:
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code


@contextlib.contextmanager
def serving(*flags):
    process = subprocess.Popen(
        [NIBBLE, "serve", "tiny", "--port", "0", *map(str, flags)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NIBBLE_THREADS": "1"},
    )
    try:
        process.stdout.readline()
        line = process.stdout.readline().decode()
        port = re.fullmatch(r"Serving tiny on http://127\.0\.0\.1:(\d+)\n", line)
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
    """The status of an answer on a raw connection."""
    line = connection.makefile("rb").readline().decode()
    return int(line.split()[1])


def first_event(connection):
    """The rest of a streamed answer, behind its first event."""
    answer = connection.makefile("rb")
    for line in answer:
        if line.startswith(b"data:"):
            return answer
    raise AssertionError("the answer has no event")


def added_up(stream):
    """What the chunks of a chat stream add up to."""
    content, reasoning, calls, reasons, usage, ids = "", "", {}, [], None, set()
    for chunk in stream:
        ids.add(chunk.id)
        usage = chunk.usage or usage
        for choice in chunk.choices:
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
    # At this temperature the model also says what is malformed.
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
    assert usage == whole.usage
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
    # and the result goes back
    told = request["messages"] + [
        reply.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 7}'},
    ]
    answer = server.client().chat.completions.create(**{**request, "messages": told})
    assert answer.usage.prompt_tokens > reply.usage.prompt_tokens
    # Without the offer there is no call.
    none = server.client().chat.completions.create(**request, tool_choice="none")
    assert none.choices[0].message.tool_calls is None and none.usage.prompt_tokens < reply.usage.prompt_tokens


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


@pytest.mark.parametrize(
    "request_bytes, status",
    [
        (b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"hello\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nX: " + b"x" * 20000 + b"\r\n\r\n", 431),
        (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{", 400),
        (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n\"\xff\"", 400),
    ],
)
def test_bad_http_gets_an_error_and_harms_nobody(server, request_bytes, status):
    assert status_of(server.send(request_bytes)) == status
    assert server.health() == 200


def test_a_connection_is_kept_for_the_next_request(server):
    connection = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
    assert status_of(connection) == 200
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
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
        for key in ("first", "secondx", "x", ""):
            with pytest.raises(openai.AuthenticationError):
                server.client(key or "-").models.list()
        for path in ("/version", "/tokenize", "/nowhere"):
            assert status_of(server.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())) == 401


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
        assert b'"error":{"message":"the server is shutting down' in stream.read()
        assert server.process.wait(timeout=10) == 130


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


def test_an_address_in_use_is_one_clear_line(server):
    done = subprocess.run([NIBBLE, "serve", "tiny", "--port", str(server.port)], capture_output=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.decode().startswith(f"nibble: 127.0.0.1:{server.port} can't be listened on")
