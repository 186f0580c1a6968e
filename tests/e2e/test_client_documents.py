"""Tests docs/clients.md: its Python and shell code runs (with another address and model), and its configurations can be
parsed. test_openai2.py runs litellm and instructor."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import openai
import pytest
import yaml

from documented import OF_OPENAI2, SECTIONS, TEXT, blocks, here, run_section
from test_anthropic import client_of
from test_responses import agent
from test_serve import serving
from weather import first_that_ends

# Languages of code blocks, and the functions that read them.
READERS = {"toml": tomllib.loads, "json": json.loads, "yaml": yaml.safe_load, "ini": lambda text: dict(line.split("=", 1) for line in text.splitlines())}


@pytest.fixture(scope="module")
def server():
    with serving("--context", 8192) as running:
        yield running


IN_PYTHON = [name for name in SECTIONS if name != "# Clients" and blocks("python", name)]
CONFIGURATIONS = [(name, kind) for name in SECTIONS for kind in READERS if blocks(kind, name)]


def configuration(server, section, kind):
    [text] = blocks(kind, section)
    return READERS[kind](here(text, server.url))


def test_the_document_has_what_is_tested():
    assert len(IN_PYTHON) == 7 and set(OF_OPENAI2) < set(IN_PYTHON)
    assert [name for name, _ in CONFIGURATIONS] == ["llm", "Codex", "Claude Code, and others with Anthropic's API", "Open WebUI", "Continue"]
    assert set(re.findall(r"```(\w+)", TEXT)) == {"python", "sh", *READERS}


def test_every_version_is_the_one_that_is_installed():
    folder = pathlib.Path(__file__).parent
    pinned = (folder / "requirements.txt").read_text() + (folder / "openai2/requirements.txt").read_text()
    versions = {name: version for name, version in re.findall(r"^([\w-]+)(?:\[.*\])?==(.*)$", pinned, re.MULTILINE)}
    table = re.findall(r"^\| ([a-z-]+) \| ([\d.]+)", TEXT, re.MULTILINE)
    assert len(table) == 10
    for name, version in table:
        assert versions["pydantic-ai-slim" if name == "pydantic-ai" else name] == version


@pytest.mark.parametrize("section", [name for name in IN_PYTHON if name not in OF_OPENAI2])
def test_what_is_written_in_python_runs(server, section, capsys):
    run_section(section, server.url, capsys)


def test_what_is_written_for_the_shell_runs(server, tmp_path):
    [models] = blocks("yaml", "llm")
    [commands] = blocks("sh", "llm")
    (tmp_path / "extra-openai-models.yaml").write_text(here(models, server.url))
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path), "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}

    def run(command):
        done = subprocess.run(["bash", "-c", command + " -o max_tokens 2000"], env=environment, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    plain, with_schema = commands.splitlines()
    assert run(plain + " -o temperature 0") == "17 + 25 = 42.\n"

    def ask(seed):
        return json.loads(run(f"{with_schema} -o temperature {seed / 10}"))

    # In the short form, the schema does not close the object, so an answer may be cut off.
    told = first_that_ends(ask, json.JSONDecodeError)
    assert isinstance(told["sum"], int) and isinstance(told["is_even"], bool)


def test_codex_reaches_the_server(server):
    told = configuration(server, "Codex", "toml")
    provider = told["model_providers"][told["model_provider"]]
    assert provider["wire_api"] == "responses" and provider.keys() == {"name", "base_url", "wire_api"}
    client = openai.OpenAI(base_url=provider["base_url"], api_key="none", max_retries=0)
    request = {**agent(model=told["model"]), "extra_body": {"client_metadata": agent()["client_metadata"]}}
    del request["client_metadata"]
    assert [event.type for event in client.responses.create(**request)][-1] in ("response.completed", "response.incomplete")


def test_claude_code_reaches_the_server(server):
    told = configuration(server, "Claude Code, and others with Anthropic's API", "json")["env"]
    assert told["ANTHROPIC_BASE_URL"] == server.url
    names = {value for key, value in told.items() if key.endswith("_MODEL")}
    assert len(names) == 1
    for name in names:
        client = client_of(server, told["ANTHROPIC_AUTH_TOKEN"])
        request = dict(model=name, messages=[{"role": "user", "content": "Go."}], max_tokens=8)
        assert client.messages.create(**request, extra_query={"beta": "true"}).model == name
        assert client.messages.count_tokens(model=name, messages=request["messages"]).input_tokens > 0


@pytest.mark.parametrize("section, kind", [("Open WebUI", "ini"), ("Continue", "yaml")])
def test_what_lists_models_and_streams_chats_reaches_the_server(server, section, kind):
    told = configuration(server, section, kind)
    if section == "Continue":
        [told] = told["models"]
        assert told["provider"] == "openai" and told["model"] == "tiny"
    url, key = (told.get(name) or told[other] for name, other in (("apiBase", "OPENAI_API_BASE_URL"), ("apiKey", "OPENAI_API_KEY")))
    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
    [model] = client.models.list().data
    stream = client.chat.completions.create(model=model.id, messages=[{"role": "user", "content": "What is 17 + 25?"}], temperature=0, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == "17 + 25 = 42."
