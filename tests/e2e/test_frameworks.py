"""Tests frameworks that use a server with OpenAI's API: plain answers, streams, tools, and all their ways to get
structured answers."""

import asyncio

import openai
import pytest

from test_serve import serving
from weather import QUESTION, Weather, first_that_ends, get_weather, only_this_machine

SUM = "What is 17 + 25?"
ANSWER = "17 + 25 = 42."


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def watch():
    with only_this_machine():
        yield


both_apis = pytest.mark.parametrize("api", ["chat", "responses"])

# langchain-openai


def langchain(server, api, **fields):
    from langchain_openai import ChatOpenAI

    fields = {"temperature": 0, "max_tokens": 1000, **fields}
    return ChatOpenAI(model="tiny", base_url=server.url + "/v1", api_key="none", max_retries=0, use_responses_api=api == "responses", **fields)


@both_apis
def test_langchain_is_answered(server, api):
    assert langchain(server, api).invoke(SUM).text == ANSWER
    assert "".join(chunk.text for chunk in langchain(server, api).stream(SUM)) == ANSWER


@both_apis
@pytest.mark.parametrize("choice", ["any", "get_weather"])
def test_langchain_gets_the_call_that_it_demands(server, api, choice):
    from langchain_core.tools import tool

    bound = langchain(server, api).bind_tools([tool(get_weather)], tool_choice=choice)
    [call] = bound.invoke(QUESTION).tool_calls
    assert call["name"] == "get_weather" and call["args"]["city"] in ("Oslo", "Rome")
    whole = None
    for chunk in bound.stream(QUESTION):
        whole = chunk if whole is None else whole + chunk
    assert [call["args"] for call in whole.tool_calls] == [call["args"]]


@both_apis
@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_gets_answers_of_a_form(server, api, method):
    chain = langchain(server, api).with_structured_output(Weather, method=method)
    assert isinstance(chain.invoke(QUESTION), Weather)
    assert isinstance(list(chain.stream(QUESTION))[-1], Weather)


@both_apis
def test_langchain_gets_any_object_of_json(server, api):
    def ask(seed):
        chain = langchain(server, api, temperature=seed / 10).with_structured_output(None, method="json_mode", include_raw=True)
        told = chain.invoke(QUESTION)
        if told["raw"].usage_metadata["output_tokens"] >= 1000:
            raise EOFError
        return told["parsed"]

    # The parser of one of the two APIs raises its own error for an answer that is cut off.
    assert isinstance(first_that_ends(ask, (EOFError, openai.LengthFinishReasonError)), dict)


# pydantic-ai


def pydantic_agent(server, api, **fields):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=server.url + "/v1", api_key="none")
    model = (OpenAIChatModel if api == "chat" else OpenAIResponsesModel)("tiny", provider=provider)
    return Agent(model, model_settings={"temperature": 0, "max_tokens": 1000}, retries=0, **fields)


@both_apis
def test_pydantic_ai_is_answered(server, api):
    assert pydantic_agent(server, api).run_sync(SUM).output == ANSWER

    async def streamed():
        async with pydantic_agent(server, api).run_stream(SUM) as stream:
            return [part async for part in stream.stream_text(delta=True, debounce_by=None)]

    parts = asyncio.run(streamed())
    assert "".join(parts) == ANSWER and len(parts) > 1


@both_apis
@pytest.mark.parametrize("way", ["ToolOutput", "NativeOutput"])
def test_pydantic_ai_gets_answers_of_a_form(server, api, way):
    import pydantic_ai

    agent = pydantic_agent(server, api, output_type=getattr(pydantic_ai, way)(Weather))
    assert isinstance(agent.run_sync(QUESTION).output, Weather)


@both_apis
def test_pydantic_ai_runs_a_tool(server, api):
    from pydantic_ai import NativeOutput

    ran = []
    agent = pydantic_agent(server, api, output_type=NativeOutput(Weather))

    @agent.tool_plain(name="get_weather")
    def run(city: str) -> str:
        """The weather in a city."""
        ran.append(city)
        return "7 degrees"

    assert isinstance(agent.run_sync(QUESTION).output, Weather) and ran


# openai-agents


@pytest.fixture
def agents(monkeypatch):
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    import agents

    agents.set_tracing_disabled(True)
    return agents


def agent(server, agents, api, **fields):
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    kind = agents.OpenAIChatCompletionsModel if api == "chat" else agents.OpenAIResponsesModel
    settings = {"temperature": 0, "max_tokens": 1000, **fields.pop("settings", {})}
    return agents.Agent(name="One", model=kind(model="tiny", openai_client=client), model_settings=agents.ModelSettings(**settings), **fields)


@both_apis
def test_openai_agents_are_answered(server, agents, api):
    assert agents.Runner.run_sync(agent(server, agents, api), SUM).final_output == ANSWER

    async def streamed():
        run = agents.Runner.run_streamed(agent(server, agents, api), SUM)  # clients belong to one event loop
        deltas = [event.data.delta async for event in run.stream_events() if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]
        assert run.final_output == ANSWER
        return deltas

    assert "".join(asyncio.run(streamed())) == ANSWER


@both_apis
def test_openai_agents_get_answers_of_a_form(server, agents, api):
    told = agents.Runner.run_sync(agent(server, agents, api, output_type=Weather), QUESTION)
    assert isinstance(told.final_output, Weather)


@both_apis
def test_openai_agents_run_a_tool_and_then_answer_in_the_form(server, agents, api):
    ran = []

    def run(city: str) -> str:
        ran.append(city)
        return get_weather(city)

    tool = agents.function_tool(run, name_override="get_weather", description_override="The weather in a city.")
    asked = agent(server, agents, api, tools=[tool], output_type=Weather, settings={"tool_choice": "required"})
    told = agents.Runner.run_sync(asked, QUESTION, max_turns=6)
    assert ran and isinstance(told.final_output, Weather)
    assert [item.type for item in told.new_items if item.type.startswith("tool")][:2] == ["tool_call_item", "tool_call_output_item"]
