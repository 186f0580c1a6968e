"""Tests that a limit on reasoning is kept to the token, in every API that has one, and that an answer follows."""

import json

import anthropic
import openai
import pytest

from test_serve import QUESTION, TOOLS, serving

WEATHER = [{"role": "user", "content": "What is the weather in Oslo?"}]
SCHEMA = {"type": "object", "properties": {"sum": {"type": "integer", "minimum": 0, "maximum": 999}}, "required": ["sum"], "additionalProperties": False}
FORM = {"type": "json_schema", "json_schema": {"name": "sum", "schema": SCHEMA}}


@pytest.fixture(scope="module", params=[(), ("--speculate", "ngram")], ids=["plain", "drafts"])
def server(request):
    with serving(*request.param) as running:
        yield running


def chat(server, field={}, **more):
    request = {"model": "tiny", "messages": QUESTION, "temperature": 0, "max_tokens": 400, **more}
    return server.client().chat.completions.create(**request, extra_body=field)


def reasoning_of(reply):
    """Returns the reasoning and its number of tokens."""
    details = reply.usage.completion_tokens_details
    return getattr(reply.choices[0].message, "reasoning", None) or "", details.reasoning_tokens


@pytest.mark.parametrize("budget", [0, 1, 2, 7, 30])
def test_a_chat_thinks_no_longer_and_answers(server, budget):
    whole, num_whole = reasoning_of(chat(server))
    assert num_whole > 30
    reply = chat(server, {"thinking_token_budget": budget})
    thought, num_tokens = reasoning_of(reply)
    assert num_tokens == budget and whole.startswith(thought)
    assert reply.choices[0].message.content and reply.choices[0].finish_reason == "stop"
    for field in ({"reasoning_budget": budget}, {"thinking_budget": budget}, {"reasoning": {"max_tokens": budget}}):
        assert chat(server, field).choices[0].message == reply.choices[0].message
    assert reply.usage.prompt_tokens_details.cached_tokens > 0
    chunks = list(chat(server, {"thinking_token_budget": budget}, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(getattr(delta, "reasoning", None) or "" for delta in deltas) == thought
    assert "".join(delta.content or "" for delta in deltas) == reply.choices[0].message.content


def test_a_limit_that_is_not_reached_changes_nothing(server):
    plain = chat(server).choices[0].message
    for budget in (-1, 200, 100_000):
        assert chat(server, {"thinking_token_budget": budget}).choices[0].message == plain


@pytest.mark.parametrize("seed", range(6))
def test_it_holds_for_every_choice_beside_tools_and_forms(server, seed):
    # At this temperature the model thinks without end, in several messages.
    hot = dict(temperature=1.5, seed=seed, n=3, max_tokens=600)
    for more in (dict(response_format=FORM), dict(messages=WEATHER, tools=TOOLS, tool_choice="required"), dict(messages=WEATHER, tools=TOOLS)):
        reply = chat(server, {"thinking_token_budget": 4}, **hot, **more)
        assert reply.usage.completion_tokens_details.reasoning_tokens <= 4 * 3
        for choice in reply.choices:
            if choice.finish_reason == "length":
                continue
            if "response_format" in more:
                assert 0 <= json.loads(choice.message.content)["sum"] <= 999
            elif "tool_choice" in more:
                assert choice.finish_reason == "tool_calls"
    assert all(choice.finish_reason == "stop" for choice in chat(server, {"thinking_token_budget": 4}, **hot, response_format=FORM).choices)


@pytest.mark.parametrize("budget", [0, 5])
def test_messages_of_anthropic_have_it_too(server, budget):
    client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60)
    request = dict(model="tiny", max_tokens=400, messages=QUESTION, thinking={"type": "enabled", "budget_tokens": budget}, extra_body={"temperature": 0})
    message = client.messages.create(**request)
    expected, num_tokens = reasoning_of(chat(server, {"thinking_token_budget": budget}))
    assert num_tokens == budget
    assert "".join(block.thinking for block in message.content if block.type == "thinking") == expected
    [text] = [block.text for block in message.content if block.type == "text"]
    assert text and message.stop_reason == "end_turn"
    with client.messages.stream(**request) as stream:
        streamed = stream.get_final_message()
    assert [block.type for block in streamed.content] == [block.type for block in message.content]
    assert streamed.content[-1].text == text


def test_responses_have_it_too(server):
    request = dict(model="tiny", input=QUESTION[0]["content"], temperature=0, max_output_tokens=400)
    for field in ({"thinking_token_budget": 5}, {"reasoning": {"max_tokens": 5}}):
        response = server.client().responses.create(**request, extra_body=field)
        assert response.usage.output_tokens_details.reasoning_tokens == 5
        assert response.output_text and response.status == "completed"


def test_reasoning_that_the_prompt_has_does_not_count(server):
    begun = [*QUESTION, {"role": "assistant", "content": "17 +", "reasoning": "Add the digits, one by one."}]
    reply = chat(server, {"thinking_token_budget": 0, "continue_final_message": True}, messages=begun)
    assert reply.choices[0].message.content and reply.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"thinking_token_budget": -2}, "thinking_token_budget"),
        ({"reasoning_budget": True}, "reasoning_budget"),
        ({"thinking_budget": 1.5}, "thinking_budget"),
        ({"reasoning": {"max_tokens": "5"}}, "reasoning.max_tokens"),
        ({"thinking_budget": 1, "thinking_token_budget": 2}, "thinking_budget"),
    ],
)
def test_what_is_no_limit_is_refused(server, fields, param):
    with pytest.raises(openai.BadRequestError) as error:
        chat(server, fields)
    assert error.value.param == param and "must be" in str(error.value)


def test_an_answer_that_never_ends_has_no_limit_of_reasoning(server):
    with pytest.raises(openai.BadRequestError, match="ignore_eos must be false"):
        chat(server, {"thinking_token_budget": 5, "ignore_eos": True})
