"""Tests that the examples run unchanged against the miniature model, and those in documents with another address and
model."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from test_serve import NIBBLE, serving

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


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


MCP_SERVER = """
from typing import Literal
from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")

@server.tool()
def get_weather(city: Literal["Oslo", "Paris"], days: Literal[1, 2, 3]) -> str:
    \"\"\"The weather in a city.\"\"\"
    return f"rain in {city} for {days} days"

server.run("stdio")
"""


def test_tools_of_an_mcp_server_are_called(environment, tmp_path):
    server = tmp_path / "weather.py"
    server.write_text(MCP_SERVER)
    told = run([sys.executable, EXAMPLES / "mcp_tools.py", "What is the weather in Oslo?", sys.executable, server], environment)
    city, days = re.search(r'calls get_weather \{"city": ?"(Oslo|Paris)", ?"days": ?([123])\}', told).groups()
    assert f"gets rain in {city} for {days} days" in told


def test_python_that_the_model_writes_is_run_in_a_sandbox_or_not_at_all():
    """Without a model: the miniature model does not write programs."""
    source = (EXAMPLES / "python_tool.py").read_text()
    names = {}
    exec(source[source.index("import json") : source.index("from openai")], names)
    exec(source[source.index("SANDBOX =") : source.index("parameters =")], names)
    run_python = names["run_python"]
    if shutil.which("bwrap"):
        assert run_python("print(6 * 7)") == "42\n"
        assert "Read-only file system" in run_python("open('/usr/x', 'w')")
        assert "Network is unreachable" in run_python("import socket; socket.create_connection(('192.0.2.1', 80))")
        assert run_python("print('a' * 10000)").endswith("[the rest is left out]")
    names["SANDBOX"] = ["there-is-no-such-program"]
    assert "nothing is run" in run_python("print(6 * 7)")


def test_a_response_streams_and_is_gone_on_with(environment):
    told = run([sys.executable, EXAMPLES / "responses.py"], environment)
    assert "<- message" in told and "tokens were cached" in told


def test_curl_reaches_every_endpoint(environment):
    told = run([EXAMPLES / "curl.sh"], environment)
    for answer in ('"status":"ok"', '"chat.completion"', "data: [DONE]", '"text_completion"', '"object":"response"', "nibble:"):
        assert answer in told, told


def here(text, server):
    return re.sub(r"http://127\.0\.0\.1:80[08]0", server.url, text).replace("openai/gpt-oss-20b", "tiny")


def test_what_the_documents_do_with_curl_works():
    told = subprocess.run([NIBBLE, "serve", "--help"], capture_output=True, check=True, timeout=60).stdout.decode()
    texts = [told, *((ROOT / name).read_text() for name in ("README.md", "docs/serving.md", "docs/api.md"))]
    commands = [re.findall(r"^ +(curl (?:.*\\\n)*.*)$", text, re.MULTILINE) for text in texts]
    assert all(commands)
    with serving() as server:
        for command in sum(commands, []):
            answer = run(["bash", "-c", here(command, server) + " -sS --fail-with-body"], os.environ)
            assert '"choices"' in answer or '"tokens"' in answer, command


def test_what_the_documents_do_with_official_clients_works():
    # The order matters: the second document uses the client that the first one creates.
    texts = [(ROOT / name).read_text() for name in ("docs/serving.md", "docs/api.md")]
    snippets = [snippet for text in texts for snippet in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]
    assert len(snippets) == 3
    with serving() as server:
        told = run([sys.executable, "-c", here("\n".join(snippets), server)], os.environ)
    assert "17 + 25 = " in told  # the rest of the answer is random


def test_what_the_document_of_structured_output_does_works():
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/structured-output.md").read_text(), re.DOTALL)
    with serving() as server:
        told = run([sys.executable, "-c", here(snippet, server)], os.environ)
    assert told.strip() in ("Africa", "America", "Asia", "Australia", "Europe")
