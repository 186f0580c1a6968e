"""Tests the access log: what a line says about its request, and which requests have no line."""

import json
import re
import signal

import pytest

from test_serve import ENDLESS, first_event, serving, status_of

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def log_of(server):
    server.process.send_signal(signal.SIGTERM)
    return server.process.communicate(timeout=20)[1].decode()


def ask(server, request_id, path="/v1/completions", body=None, headers="", key="sk-alice"):
    body = body or {"prompt": "It was a dark and", "max_tokens": 5, "temperature": 0, "ignore_eos": True}
    lines = f"X-Request-Id: {request_id}\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n{headers}"
    return server.post(path, body, lines).makefile("rb").read().decode()


@pytest.fixture(scope="module")
def lines():
    """Returns the lines of a JSON log by request id."""
    with serving("--log-level", "info", "--log-format", "json", "--api-key", "alice:sk-alice", "--api-key", "sk-b") as server:
        answer = ask(server, "first", headers=f"traceparent: {TRACE}\r\n")
        assert f"\r\ntraceparent: {TRACE}\r\n" in answer
        assert "traceparent" not in ask(server, "bad-trace", headers="traceparent: 00-00-00-00\r\n", key="sk-b")
        long = "What is 17 + 25? " * 20
        for name in ("cold", "cached"):
            chat = {"model": "tiny", "messages": [{"role": "user", "content": long}], "max_tokens": 4}
            ask(server, name, "/v1/chat/completions", chat)
        ask(server, "stream", body={"prompt": "It", "max_tokens": 3, "stream": True, "n": 2, "ignore_eos": True})
        ask(server, "refused", body={"prompt": "It", "temperature": 9})
        ask(server, "stranger", key="sk-alic")
        ask(server, "proxied", headers="X-Forwarded-For: 10.0.0.1, 192.0.2.7\r\n")
        ask(server, "forged", headers="X-Forwarded-For: 192.0.2.7, status=200\r\n")
        gone = server.post("/v1/completions", {**ENDLESS, "stream": True}, "X-Request-Id: gone\r\nAuthorization: Bearer sk-alice\r\n")
        first_event(gone)
        gone.close()
        made = json.loads(ask(server, "background", "/v1/responses", {"input": "Hi", "background": True, "max_output_tokens": 4}).partition("\r\n\r\n")[2])
        client = server.client("sk-alice")
        while client.responses.retrieve(made["id"]).status in ("queued", "in_progress"):
            pass
        for path in ("/health", "/live", "/metrics"):
            key = "Authorization: Bearer sk-alice\r\n" if path == "/metrics" else ""
            assert status_of(server.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: probe\r\n{key}\r\n".encode())) == 200
        status_of(server.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: no-key\r\n\r\n"))
        log = log_of(server)
    assert "sk-" not in log and "dark" not in log and "25?" not in log
    found = [json.loads(line) for line in log.splitlines()[1:]]
    return {line["request_id"]: line for line in found if "request_id" in line} | {"made": made["id"]}


def test_a_line_says_who_asked_for_what_and_what_it_took(lines):
    line = lines["first"]
    assert (line["client"], line["key"], line["model"]) == ("127.0.0.1", "alice", "tiny")
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/completions", 200)
    assert line["prompt_tokens"] > 0 and line["output_tokens"] == 5 and line["cached_tokens"] == 0
    assert line["finish_reason"] == "length" and line["traceparent"] == TRACE
    names = ("tokenised_ms", "queued_ms", "first_kernel_ms", "ttft_ms", "last_token_ms", "first_byte_ms", "ms")
    times = [line[name] for name in names]  # not streamed: the first byte follows the last token
    assert times == sorted(times) and times[0] > 0
    assert re.fullmatch(TIME, line["time"])


def test_a_key_without_a_name_is_numbered_and_a_wrong_trace_is_left_out(lines):
    assert lines["bad-trace"]["key"] == "key-2" and "traceparent" not in lines["bad-trace"]


def test_cached_tokens_and_all_choices_are_counted(lines):
    assert lines["cold"]["cached_tokens"] < lines["cached"]["cached_tokens"] <= lines["cached"]["prompt_tokens"]
    assert lines["stream"]["output_tokens"] == 6


def test_a_refused_request_has_no_tokens(lines):
    assert lines["refused"]["status"] == 400 and lines["refused"]["key"] == "alice" and "prompt_tokens" not in lines["refused"]
    assert lines["stranger"]["status"] == 401 and "key" not in lines["stranger"]


def test_the_client_is_whom_a_proxy_on_this_machine_names(lines):
    assert lines["proxied"]["client"] == "192.0.2.7"
    assert lines["forged"]["client"] == "127.0.0.1"


def test_a_client_that_left_is_an_abort(lines):
    assert (lines["gone"]["status"], lines["gone"]["finish_reason"]) == (499, "abort")


def test_a_response_in_the_background_has_a_line_of_its_own(lines):
    assert lines["background"]["status"] == 200 and "output_tokens" not in lines["background"]
    line = lines[lines["made"]]
    assert (line["key"], line["status"], line["client"]) == ("alice", 200, "127.0.0.1") and line["output_tokens"] > 0
    assert 0 < line["tokenised_ms"] <= line["first_kernel_ms"] <= line["last_token_ms"] and "first_byte_ms" not in line


def test_probes_have_no_line_unless_they_are_refused(lines):
    assert "probe" not in lines and lines["no-key"]["status"] == 401


def test_text_lines_have_the_same_words_and_a_time():
    with serving("--log-level", "info", "--api-key", "alice:sk-alice") as server:
        ask(server, "mine", headers=f"traceparent: {TRACE}\r\n")
        log = log_of(server)
    [line] = [line for line in log.splitlines() if " mine " in line]
    words = r"client=127\.0\.0\.1 key=alice model=tiny prompt_tokens=\d+ cached_tokens=0 output_tokens=5"
    words += r" tokenised_ms=[\d.]+ queued_ms=[\d.]+ first_kernel_ms=[\d.]+ ttft_ms=[\d.]+ first_byte_ms=[\d.]+ last_token_ms=[\d.]+ finish_reason=length"
    assert re.fullmatch(rf"I {TIME} mine POST /v1/completions 200 [\d.]+ ms {words} traceparent={TRACE}", line), line
    assert "sk-alice" not in log and "dark" not in log
