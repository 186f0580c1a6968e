"""Tests that other clients are still answered while one client takes all it can get. The tests check which answers
arrive and in which order, never times."""

import contextlib
import json
import socket
import subprocess
import urllib.request

import pytest

from test_serve import NIBBLE, QUESTION, serving, status_of

PLACES = 40
MEGABYTE = json.dumps({"prompt": "What is 17 + 25? " * 60_000}).encode()


@pytest.fixture(scope="module")
def server():
    with serving("--max-connections", PLACES, "--context", 16384, "--max-sequences", 4) as running:
        yield running


def chat(server):
    reply = server.client().chat.completions.create(model="tiny", messages=QUESTION, temperature=0, max_tokens=8)
    assert reply.usage.completion_tokens == 8


def has_answered(connection):
    connection.setblocking(False)
    try:
        return len(connection.recv(1, socket.MSG_PEEK)) > 0
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(120)


def unsent_body(server):
    return server.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n{")


def test_idle_connections_and_unsent_bodies_keep_nobody_out(server):
    with contextlib.ExitStack() as held:
        for _ in range(32):
            held.enter_context(unsent_body(server))
        for _ in range(2 * PLACES):
            held.enter_context(server.send(b""))
        for _ in range(2 * PLACES):
            held.enter_context(server.send(b"GET /health HTTP/1.1\r\nHo"))
            assert server.health() == 200
        chat(server)
        assert server.health("/metrics") == 200


def test_short_requests_overtake_long_ones(server):
    with contextlib.ExitStack() as held:
        long = [held.enter_context(server.post("/tokenize", MEGABYTE)) for _ in range(16)]
        assert server.health() == 200
        chat(server)
        # This request is too long for the I/O thread.
        padded = json.dumps({"messages": QUESTION, "max_tokens": 2, "temperature": 0}) + " " * 30_000
        assert status_of(server.post("/v1/chat/completions", padded.encode())) == 200
        assert not all(has_answered(connection) for connection in long)
        assert [status_of(connection) for connection in long] == [200] * 16


def test_bodies_of_a_client_that_has_left_are_not_parsed(server):
    for connection in [server.post("/tokenize", MEGABYTE) for _ in range(16)]:
        connection.close()
    assert status_of(server.post("/tokenize", MEGABYTE)) == 200
    with urllib.request.urlopen(server.url + "/metrics", timeout=60) as reply:
        assert 'endpoint="/tokenize",status="499"' in reply.read().decode()


@pytest.mark.parametrize("host, key, is_open", [("0.0.0.0", [], True), ("127.0.0.1", [], False), ("0.0.0.0", ["--api-key", "k"], False)])
def test_a_server_that_everybody_may_use_warns_in_one_line(host, key, is_open):
    process = subprocess.Popen([NIBBLE, "serve", "tiny", "--port", "0", "--host", host, *key], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        process.stdout.readline()
        process.stdout.readline()
    finally:
        process.kill()
        told = process.communicate()[1].decode()
    assert told.count("nibble: warning: no API key: anyone who can reach") == is_open
