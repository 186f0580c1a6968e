"""The examples run as they are, against the miniature model."""

import os
import pathlib
import subprocess
import sys

import pytest

from test_serve import serving

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def environment():
    with serving("--api-key", "secret") as server:
        yield {**os.environ, "NIBBLE_URL": server.url, "NIBBLE_API_KEY": "secret"}


def run(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_chat_is_streamed(environment):
    told = run([sys.executable, EXAMPLES / "chat.py", "What is 1 + 1?"], environment)
    assert "\033[90m" in told and "tokens of prompt" in told


def test_a_tool_is_called(environment):
    assert 'calls get_weather {"city"' in run([sys.executable, EXAMPLES / "tools.py"], environment)


def test_a_response_streams_and_is_gone_on_with(environment):
    told = run([sys.executable, EXAMPLES / "responses.py"], environment)
    assert "<- message" in told and "tokens were cached" in told


def test_curl_reaches_every_endpoint(environment):
    told = run([EXAMPLES / "curl.sh"], environment)
    for answer in ('"status":"ok"', '"chat.completion"', "data: [DONE]", '"text_completion"', '"object":"response"', "nibble:"):
        assert answer in told, told
