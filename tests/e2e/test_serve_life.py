"""Tests the server's Unix socket, CORS, logs, and the text of prompts. (Limits: test_serve.py.)"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from test_serve import ENDLESS, NIBBLE, QUESTION, first_event, serving, status_of

HARMONY = re.compile(r"^<\|start\|>system<\|message\|>.*<\|start\|>assistant$", re.DOTALL)


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


# what a prompt becomes


def test_a_template_and_its_tokens_are_what_a_chat_runs(server):
    chat = {"messages": QUESTION, "reasoning_effort": "low"}
    text = post(server, "/apply-template", chat)["prompt"]
    assert HARMONY.match(text) and "What is 17 + 25?" in text and "Reasoning: low" in text
    tokens = post(server, "/tokenize", chat)
    assert tokens["tokens"] == post(server, "/tokenize", {"prompt": text})["tokens"]
    assert tokens["count"] == len(tokens["tokens"])
    assert post(server, "/detokenize", {"tokens": tokens["tokens"]})["content"] == text
    usage = post(server, "/v1/chat/completions", {**chat, "max_tokens": 1})["usage"]
    assert usage["prompt_tokens"] == tokens["count"]
    # A completion of this prompt must give the same text as the chat.
    said = post(server, "/v1/completions", {"prompt": text, "temperature": 0, "max_tokens": 200})["choices"][0]["text"]
    answer = post(server, "/v1/chat/completions", {**chat, "temperature": 0, "max_tokens": 200})["choices"][0]["message"]
    assert answer["content"] and answer["content"] in said


def test_tokens_are_told_with_their_texts(server):
    told = post(server, "/tokenize", {"prompt": "<|start|>Grüße 🙂", "return_token_strs": True})
    assert told["token_strs"][0] == "<|start|>" and len(told["token_strs"]) == told["count"]
    plain = post(server, "/tokenize", {"content": "<|start|>Grüße 🙂", "parse_special": False})
    assert plain["count"] > told["count"]
    assert post(server, "/detokenize", {"tokens": plain["tokens"]})["prompt"] == "<|start|>Grüße 🙂"


def test_a_prompt_of_megabytes_does_not_hold_up_the_answers_of_others(server):
    """Parsing a huge body takes a second or more before it is refused as too long. A stream must not pause that long
    meanwhile."""
    answer = first_event(server.post("/v1/completions", {**ENDLESS, "stream": True}))
    gaps, done = [], threading.Event()

    def listen():
        last = time.monotonic()
        for _ in answer:
            gaps.append(time.monotonic() - last)
            last = time.monotonic()
            if done.is_set():
                return

    listener = threading.Thread(target=listen)
    listener.start()
    words = "What is 17 + 25? " * 400_000
    began = time.monotonic()
    connection = server.post("/v1/completions", {"prompt": words})
    assert status_of(connection) == 400
    took = time.monotonic() - began
    done.set()
    listener.join()
    answer.close()
    assert max(gaps) < took / 2


# Unix socket


def ask_socket(path, request):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(str(path))
    connection.sendall(request)
    return connection.makefile("rb").read()


def test_a_unix_socket_serves_and_is_gone_afterwards(tmp_path):
    path = tmp_path / "nibble.sock"
    stale = socket.socket(socket.AF_UNIX)  # left by a killed server
    stale.bind(str(path))
    stale.close()
    process = subprocess.Popen(
        [NIBBLE, "serve", "tiny", "--unix-socket", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NIBBLE_THREADS": "1"},
    )
    try:
        process.stdout.readline()
        assert process.stdout.readline().decode() == f"Serving tiny on unix:{path}\n"
        assert b'{"status":"ok"}' in ask_socket(path, b"GET /health HTTP/1.1\r\nHost: any.name\r\nConnection: close\r\n\r\n")
        body = b'{"prompt": "It was", "max_tokens": 3, "stream": true}'
        answer = ask_socket(
            path,
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body),
        )
        assert b"data: [DONE]" in answer
        second = subprocess.run([NIBBLE, "serve", "tiny", "--unix-socket", path], capture_output=True, timeout=60)
        assert second.returncode == 2 and f"can't listen on --unix-socket '{path}': Address already in use" in second.stderr.decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        assert not path.exists()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("path, told", [("/nowhere/x", "No such file"), ("/tmp/" + "x" * 120, "too long")])
def test_a_socket_that_can_not_be_is_one_clear_line(path, told):
    done = subprocess.run([NIBBLE, "serve", "tiny", "--unix-socket", path], capture_output=True, timeout=60)
    assert done.returncode == 2 and told in done.stderr.decode() and done.stderr.count(b"\n") == 1


# signals and closed streams


def test_a_hangup_ends_nothing(server):
    for _ in range(3):
        server.process.send_signal(signal.SIGHUP)
        assert post(server, "/v1/completions", {"prompt": "It was", "max_tokens": 3})["usage"]["completion_tokens"] == 3
    assert server.process.poll() is None


def test_a_hangup_while_the_model_loads_ends_nothing():
    process = subprocess.Popen([NIBBLE, "serve", "tiny", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout.readline().startswith(b"Loading")
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline().startswith(b"Serving")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.communicate()


def test_readers_of_stdout_and_stderr_that_go_away_end_nothing():
    with serving("--log-level", "info") as server:
        server.process.stdout.close()
        server.process.stderr.close()
        for _ in range(3):  # each request writes a line to the log
            assert post(server, "/v1/completions", {"prompt": "It was", "max_tokens": 3})["usage"]["completion_tokens"] == 3
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=10) == 0


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", "2>/dev/full"])
def test_a_server_whose_output_can_not_be_written_serves_and_ends_well(redirection, tmp_path):
    path = tmp_path / "nibble.sock"
    command = ["bash", "-c", f'exec "$0" "$@" {redirection}', NIBBLE, "serve", "tiny", "--unix-socket", path]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ready = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        end = time.monotonic() + 60
        while not path.exists() or b'"ok"' not in ask_socket(path, ready):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.wait()


# browsers


def headers_of(server, method, path, headers, body=None):
    request = urllib.request.Request(server.url + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


def test_pages_of_the_named_origins_may_ask():
    mine, other = "https://chat.example", "https://evil.example"
    with serving("--cors-origin", mine, "--cors-origin", "http://localhost:3000", "--api-key", "k") as server:
        status, headers = headers_of(server, "OPTIONS", "/v1/chat/completions", {"Origin": mine, **PREFLIGHT})
        assert status == 204 and headers["Access-Control-Allow-Origin"] == mine
        assert headers["Access-Control-Allow-Headers"] == "authorization,content-type"
        assert "POST" in headers["Access-Control-Allow-Methods"]
        status, headers = headers_of(server, "OPTIONS", "/v1/chat/completions", {"Origin": other, **PREFLIGHT})
        assert status == 403 and headers["Access-Control-Allow-Origin"] is None
        # Refusals have these headers too: without them a page could not read the error.
        assert headers_of(server, "GET", "/v1/models", {"Origin": mine})[0] == 401
        for key, status in (("k", 200), ("x", 401)):
            told = headers_of(server, "GET", "/v1/models", {"Origin": mine, "Authorization": "Bearer " + key})
            assert told[0] == status and told[1]["Access-Control-Allow-Origin"] == mine
        body = json.dumps({"prompt": "a", "max_tokens": 1, "stream": True}).encode()
        _, headers = headers_of(
            server, "POST", "/v1/completions", {"Origin": mine, "Authorization": "Bearer k"}, body
        )
        assert headers["Access-Control-Allow-Origin"] == mine
        status, headers = headers_of(server, "GET", "/health", {"Origin": other})
        assert status == 403 and headers["Access-Control-Allow-Origin"] is None
    with serving("--cors-origin", "*") as server:
        assert headers_of(server, "GET", "/health", {"Origin": other})[1]["Access-Control-Allow-Origin"] == other


def test_without_the_flag_no_page_may_ask(server):
    status, headers = headers_of(server, "OPTIONS", "/v1/models", {"Origin": "https://x.example", **PREFLIGHT})
    assert status == 403 and headers["Access-Control-Allow-Origin"] is None


# logs


def logged(*flags):
    """Returns stderr after one request with its own id and one that is refused."""
    with serving("--log-level", "info", *flags) as server:
        connection = server.post(
            "/v1/completions", {"prompt": "xyz\nzy \"Grüße\"", "max_tokens": 1}, "X-Request-Id: mine-7\r\n"
        )
        assert status_of(connection) == 200
        assert status_of(server.send(b"GET /no\x1b\xffwhere HTTP/1.1\r\nHost: localhost\r\n\r\n")) in (400, 404)
        server.process.send_signal(signal.SIGTERM)
        return server.process.communicate(timeout=10)[1].decode()


def test_json_logs_have_an_object_on_each_line():
    loading, *lines = logged("--log-format", "json").splitlines()
    assert loading.startswith("loading tiny")  # progress, which is not part of the log
    lines = [json.loads(line) for line in lines]
    [mine] = [line for line in lines if line.get("request_id") == "mine-7"]
    assert (mine["method"], mine["path"], mine["status"]) == ("POST", "/v1/completions", 200)
    assert mine["ms"] > 0 and mine["level"] == "info"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", mine["time"])
    assert any("draining" in line.get("message", "") for line in lines)


@pytest.mark.parametrize("format", ["text", "json"])
def test_prompts_are_logged_only_if_asked(format):
    assert "zy" not in logged("--log-format", format)
    told = logged("--log-format", format, "--log-bodies")
    [line] = [line for line in told.splitlines() if "mine-7 body" in line]
    said = json.loads(line)["message"] if format == "json" else line.split(" ", 2)[2]
    body = json.loads(said.removeprefix("mine-7 body "))
    assert json.loads(body)["prompt"] == 'xyz\nzy "Grüße"'


# words in prompts


def test_the_model_is_told_the_day_that_the_server_was_given():
    question = b'{"messages": [{"role": "user", "content": "Hi"}]}'
    with serving("--date", "2025-06-28") as server:
        with urllib.request.urlopen(urllib.request.Request(server.url + "/apply-template", question), timeout=30) as reply:
            assert "Current date: 2025-06-28" in json.load(reply)["prompt"]


def test_the_documents_have_every_flag_and_every_endpoint(server):
    operating, api = ((pathlib.Path(__file__).parents[2] / "docs" / name).read_text() for name in ("operating.md", "api.md"))
    told = subprocess.run([NIBBLE, "serve", "--help"], capture_output=True, timeout=60, check=True).stdout.decode()
    flags = set(re.findall(r"^  (--[a-z0-9-]+)", told, re.MULTILINE))
    assert len(flags) > 20 and {flag for flag in flags if f"`{flag}`" not in operating} == set()
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(server.url + "/nowhere", timeout=30)
    paths = re.findall(r"/[a-z0-9_/{}-]+", json.load(error.value)["error"]["message"].partition(";")[2])
    assert len(paths) > 8 and [path for path in paths if f" {path}`" not in api] == []
