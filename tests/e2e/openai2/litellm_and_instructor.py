"""litellm and instructor, which cannot be installed together with the newest openai package. Run by
tests/e2e/test_openai2.py."""

import json
import os
from typing import Iterable

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict

from documented import OF_OPENAI2, run_section
from weather import MESSAGES, QUESTION, Weather, first_that_ends, only_this_machine

URL = os.environ["NIBBLE_URL"]
SCHEMA = Weather.model_json_schema()
SUM = [{"role": "user", "content": "What is 17 + 25?"}]
ANSWER = "17 + 25 = 42."
GREEDY = {"temperature": 0, "max_tokens": 1000}


@pytest.fixture(autouse=True)
def watch():
    with only_this_machine():
        yield


# litellm: the first model uses OpenAI's API, the other models vLLM's, Anthropic's and Ollama's.

MODELS = {"openai/tiny": "/v1", "hosted_vllm/tiny": "/v1", "anthropic/tiny": "", "ollama_chat/tiny": ""}
every_model = pytest.mark.parametrize("model", MODELS)


def completion(model, **fields):
    import litellm

    return litellm.completion(**{"model": model, "api_base": URL + MODELS[model], "api_key": "none", "messages": MESSAGES, "num_retries": 0, **GREEDY, **fields})


@every_model
def test_litellm_is_answered(model):
    assert completion(model, messages=SUM).choices[0].message.content == ANSWER
    parts = [chunk.choices[0].delta.content or "" for chunk in completion(model, messages=SUM, stream=True)]
    assert "".join(parts) == ANSWER and len(parts) > 2


# Ollama's API has no tool_choice.
@pytest.mark.parametrize("model", [model for model in MODELS if not model.startswith("ollama")])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}], ids=["required", "named"])
def test_litellm_gets_the_call_that_it_demands(model, choice):
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
    [call] = completion(model, tools=tools, tool_choice=choice).choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    jsonschema.validate(json.loads(call.function.arguments), SCHEMA)


@every_model
def test_litellm_gets_answers_of_a_form(model):
    jsonschema.validate(json.loads(completion(model, response_format=Weather).choices[0].message.content), SCHEMA)


def test_litellm_gets_a_response_of_a_form():
    import litellm

    told = litellm.responses(model="openai/tiny", input=QUESTION, api_base=URL + "/v1", api_key="none", temperature=0, max_output_tokens=1000, text_format=Weather)
    Weather.model_validate_json(told.output[-1].content[0].text)


@pytest.mark.parametrize("section", OF_OPENAI2)
def test_what_the_document_says_runs(section, capsys):
    run_section(section, URL, capsys)


# instructor


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


def create(mode, response_model=Weather, **fields):
    import instructor
    import openai

    client = instructor.from_openai(openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0), mode=instructor.Mode[mode])
    return client.chat.completions.create(**{"model": "tiny", "messages": MESSAGES, "response_model": response_model, "max_retries": 0, **GREEDY, **fields})


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "FUNCTIONS", "JSON_SCHEMA", "RESPONSES_TOOLS", "RESPONSES_TOOLS_WITH_INBUILT_TOOLS"])
def test_instructor_gets_answers_of_a_form(mode):
    assert isinstance(create(mode), Weather)


def test_instructor_gets_a_form_of_which_it_tells_in_words_alone():
    assert isinstance(create("MD_JSON", extra_body={"structured_outputs": {"json": SCHEMA}}), Weather)


@pytest.mark.parametrize("mode", ["JSON", "JSON_O1"])
def test_instructor_gets_any_object_of_json(mode):
    from instructor.core.exceptions import IncompleteOutputException

    def ask(seed):
        return create(mode, Anything, temperature=1, seed=seed)

    assert isinstance(first_that_ends(ask, IncompleteOutputException), Anything)


class City(BaseModel):
    city: str


def test_instructor_gets_calls_that_the_model_chooses_to_make():
    # This mode sends tool_choice "auto", so no constraint applies to the arguments. It works because the
    # miniature model was trained on tools with a city.
    told = list(create("PARALLEL_TOOLS", Iterable[City]))
    assert told and all(isinstance(call, City) for call in told)


def test_instructor_streams_a_form():
    import instructor
    import openai

    client = instructor.from_openai(openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0), mode=instructor.Mode.TOOLS)
    parts = list(client.create_partial(model="tiny", messages=MESSAGES, response_model=Weather, max_retries=0, **GREEDY))
    assert len(parts) > 1 and Weather.model_validate(parts[-1].model_dump())
