"""Tests official clients as installed: plain answers, streams, required calls and structured answers."""

import json
from typing import Literal

import jsonschema
import openai
import pydantic
import pytest
from pydantic import BaseModel, ConfigDict

from test_serve import serving
from weather import MESSAGES, QUESTION, Weather, get_weather, only_this_machine

SCHEMA = Weather.model_json_schema()
SUM = [{"role": "user", "content": "What is 17 + 25?"}]
ANSWER = "17 + 25 = 42."


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def watch():
    with only_this_machine():
        yield


def check_call(name, arguments):
    assert name == "get_weather"
    jsonschema.validate(arguments, SCHEMA)


# openai

FUNCTION = {"name": "get_weather", "description": "The weather in a city.", "parameters": SCHEMA}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
ONE_OF = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}


def chat(server, **fields):
    return dict(model="tiny", messages=MESSAGES, max_tokens=1000, temperature=0, **fields)


def test_openai_streams_a_chat(server):
    client = server.client()
    request = dict(model="tiny", messages=SUM, temperature=0)
    assert client.chat.completions.create(**request).choices[0].message.content == ANSWER
    with client.chat.completions.stream(**request) as stream:
        said = "".join(event.delta for event in stream if event.type == "content.delta")
    assert said == ANSWER == stream.get_final_completion().choices[0].message.content


@pytest.mark.parametrize("choice", ["required", NAMED, ONE_OF], ids=["required", "named", "allowed"])
def test_openai_gets_the_call_that_it_demands(server, choice):
    other = {"type": "function", "function": {"name": "other", "parameters": SCHEMA}}
    tools = [{"type": "function", "function": FUNCTION}, *([] if choice == "required" else [other])]
    request = chat(server, tools=tools, tool_choice=choice)
    whole = server.client().chat.completions.create(**request).choices[0]
    assert whole.finish_reason == "tool_calls"
    [call] = whole.message.tool_calls
    check_call(call.function.name, json.loads(call.function.arguments))
    with server.client().chat.completions.stream(**request) as stream:
        [streamed] = stream.get_final_completion().choices[0].message.tool_calls
    assert streamed.function.arguments == call.function.arguments


def test_openai_parses_strict_calls(server):
    tool = openai.pydantic_function_tool(Weather, name="get_weather")
    reply = server.client().chat.completions.parse(**chat(server, tools=[tool], tool_choice="required"))
    [call] = reply.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Weather)


def test_openai_parses_chats(server):
    request = chat(server, response_format=Weather)
    whole = server.client().chat.completions.parse(**request).choices[0].message.parsed
    with server.client().chat.completions.stream(**request) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == whole
    assert isinstance(whole, Weather)


def test_openai_parses_responses(server):
    request = dict(model="tiny", input=QUESTION, max_output_tokens=1000, temperature=0, text_format=Weather)
    whole = server.client().responses.parse(**request).output_parsed
    with server.client().responses.stream(**request) as stream:
        assert stream.get_final_response().output_parsed == whole
    assert isinstance(whole, Weather)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}], ids=["required", "named"])
def test_openai_gets_a_response_with_the_call_that_it_demands(server, choice):
    request = dict(model="tiny", input=QUESTION, max_output_tokens=1000, temperature=0, tool_choice=choice)
    tools = [{"type": "function", "strict": True, **FUNCTION}]
    call = server.client().responses.create(**request, tools=tools).output[-1]
    check_call(call.name, json.loads(call.arguments))
    with server.client().responses.stream(**request, tools=tools) as stream:
        assert stream.get_final_response().output[-1].arguments == call.arguments


# anthropic


class Sky(BaseModel):
    """Anthropic's package takes bounds of numbers and texts out of a schema and checks them itself."""

    model_config = ConfigDict(extra="forbid")
    city: Literal["Oslo", "Rome"]
    sky: Literal["clear", "cloudy", "rain"]


def message(server, **fields):
    import anthropic

    client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0).messages
    return client, dict(model="tiny", max_tokens=1000, messages=MESSAGES, extra_body={"temperature": 0}, **fields)


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}], ids=["any", "named"])
def test_anthropic_gets_the_call_that_it_demands(server, choice):
    tools = [{"name": "get_weather", "input_schema": SCHEMA}]
    client, request = message(server, tools=tools, tool_choice=choice)
    whole = client.create(**request)
    assert whole.stop_reason == "tool_use"
    check_call(whole.content[-1].name, whole.content[-1].input)
    with client.stream(**request) as stream:
        assert stream.get_final_message().content[-1].input == whole.content[-1].input


def test_anthropic_parses_messages(server):
    client, request = message(server)
    parsed = client.parse(**request, output_format=Sky)
    assert isinstance(parsed.parsed_output, Sky)
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    with client.stream(**request, output_config=form) as stream:
        Weather.model_validate_json(stream.get_final_text())


# ollama


def test_ollama_gets_answers_of_a_form(server):
    import ollama

    client, options = ollama.Client(host=server.url), {"temperature": 0, "num_predict": 1000}
    request = dict(model="tiny", format=SCHEMA, options=options)
    whole = client.chat(messages=MESSAGES, **request).message.content
    parts = client.chat(messages=MESSAGES, stream=True, **request)
    assert "".join(part.message.content for part in parts) == whole
    Weather.model_validate_json(whole)
    Weather.model_validate_json(client.generate(prompt=QUESTION, **request).response)


# llm, whose own command runs in this process

MODELS = """
- model_id: tiny
  model_name: tiny
  api_base: {url}/v1
  supports_schema: true
  supports_tools: true
"""


@pytest.fixture
def llm_command(server, tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    (tmp_path / "extra-openai-models.yaml").write_text(MODELS.format(url=server.url))
    from click.testing import CliRunner
    from llm.cli import cli

    def run(*arguments):
        done = CliRunner().invoke(cli, ["-m", "tiny", "--key", "none", *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    return run


def test_llm_is_answered(llm_command):
    for mode in ((), ("--no-stream",)):
        assert llm_command("What is 17 + 25?", "-o", "temperature", "0", *mode) == ANSWER + "\n"


def test_llm_gets_answers_of_a_schema(llm_command):
    told = llm_command(QUESTION, "--schema", json.dumps(SCHEMA), "-o", "temperature", "0", "-o", "max_tokens", "1000")
    Weather.model_validate_json(told)


def test_llm_runs_a_tool(llm_command):
    import llm

    ran = []

    def get_weather(city: str) -> str:
        """The weather in a city."""
        ran.append(city)
        return "7 degrees"

    options = {"temperature": 0, "max_tokens": 300}
    first = llm.get_model("tiny").prompt(QUESTION, tools=[get_weather], key="none", options=options)
    results = first.execute_tool_calls()
    assert len(ran) == 1 and results[0].output == "7 degrees"
    assert first.reply(tool_results=results, key="none", options=options).text()


def test_a_schema_that_can_not_be_held_is_told_to_every_client(server):
    class Unheld(BaseModel):
        cities: list[Literal["Oslo", "Rome"]] = pydantic.Field(json_schema_extra={"contains": {"const": "Oslo"}, "minContains": 2})

    with pytest.raises(openai.BadRequestError, match="'contains'"):
        server.client().chat.completions.parse(**chat(server, response_format=Unheld))
