"""Tests the fields of a request: obeyed, reported in a header, or refused by name."""

import json
import urllib.error
import urllib.request

import openai
import pytest

from test_serve import QUESTION, TOOLS, serving

IGNORED = "X-Nibble-Ignored"


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def ask(server, path, body):
    """Returns the answer as JSON, and its headers."""
    request = urllib.request.Request(server.url + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply), reply.headers


def tokens_of(server, text):
    return ask(server, "/tokenize", {"prompt": text})[0]["tokens"]


def complete(server, prompt="It was a", **fields):
    body = {"prompt": prompt, "temperature": 0, "max_tokens": 12, "return_token_ids": True, **fields}
    return ask(server, "/v1/completions", body)[0]["choices"]


def chat(server, **fields):
    return ask(server, "/v1/chat/completions", {"messages": QUESTION, "temperature": 0, **fields})


# reported and refused


@pytest.mark.parametrize(
    "path, body",
    [
        ("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 1}),
        ("/v1/completions", {"prompt": "a", "max_tokens": 1}),
        ("/v1/responses", {"input": "a", "max_output_tokens": 1}),
        ("/apply-template", {"messages": QUESTION}),
        ("/tokenize", {"prompt": "a"}),
        ("/tokenize", {"messages": QUESTION}),
    ],
)
def test_a_field_without_effect_is_told(server, path, body):
    assert ask(server, path, body)[1][IGNORED] is None
    assert ask(server, path, {**body, "nobody_knows": 7, "rope\r\n": 1})[1][IGNORED] == "nobody_knows, rope??"


def test_a_stream_tells_it_too(server):
    raw = server.client().chat.completions.with_raw_response
    reply = raw.create(model="tiny", messages=QUESTION, max_tokens=1, stream=True, user="me")
    assert reply.headers[IGNORED] == "user"
    assert list(reply.parse())


def test_a_strict_server_refuses_them():
    with serving("--strict") as server:
        client = server.client()
        client.completions.create(model="tiny", prompt="a", max_tokens=1)
        for path, body in (("/completions", {"prompt": "a"}), ("/chat/completions", {"messages": QUESTION}), ("/responses", {"input": "a"})):
            with pytest.raises(openai.BadRequestError) as error:
                client.post(path, body={**body, "nobody_knows": 7}, cast_to=object)
            assert error.value.param == "nobody_knows" and "strict" in str(error.value)
        with pytest.raises(openai.BadRequestError) as error:
            client.chat.completions.create(model="tiny", messages=QUESTION, reasoning_effort="minimal")
        assert error.value.param == "reasoning_effort"


def test_the_log_names_them_once():
    with serving("--log-level", "info") as server:
        chat(server, max_tokens=1, user="me", rid="7")
        server.process.terminate()
        told = server.process.communicate(timeout=20)[1].decode()
        assert told.count("ignored user, rid") == 1


# obeyed


def test_stop_tokens_end_an_answer(server):
    [plain] = complete(server)
    end = plain["token_ids"][4]
    [cut] = complete(server, stop_token_ids=[end])
    first = plain["token_ids"].index(end)
    assert cut["token_ids"] == plain["token_ids"][: first + 1] and cut["finish_reason"] == "stop"
    [kept] = complete(server, stop_token_ids=[end], include_stop_str_in_output=True)
    assert plain["text"].startswith(kept["text"]) and len(kept["text"]) > len(cut["text"])
    [later] = complete(server, stop_token_ids=[end], min_tokens=first + 2)
    assert len(later["token_ids"]) > first + 1 and end not in later["token_ids"][: first + 1]


def test_a_stop_token_ends_a_chat_wherever_it_is(server):
    whole = chat(server, return_token_ids=True)[0]["choices"][0]
    [point] = tokens_of(server, ".")
    cut = chat(server, stop_token_ids=[point], return_token_ids=True)[0]["choices"][0]
    assert cut["token_ids"] == whole["token_ids"][: whole["token_ids"].index(point) + 1]
    kept = chat(server, stop_token_ids=[point], include_stop_str_in_output=True)[0]["choices"][0]
    for choice in (cut, kept):
        assert choice["finish_reason"] == "stop" and choice["message"]["content"] == ""
    assert whole["message"]["reasoning"].startswith(kept["message"]["reasoning"])
    assert kept["message"]["reasoning"] == cut["message"]["reasoning"] + "."


def test_a_stop_string_is_kept_where_that_is_asked_for(server):
    assert chat(server, stop=" =", include_stop_str_in_output=True)[0]["choices"][0]["message"]["content"] == "17 + 25 ="


def test_bad_words_are_never_said(server):
    [plain] = complete(server, max_tokens=40)
    words = [word for word in plain["text"].split() if word.isalpha() and len(word) > 2][:3]
    [clean] = complete(server, max_tokens=40, bad_words=words)
    for word in words:
        for spelt in (word, " " + word):
            run = tokens_of(server, spelt)
            said = clean["token_ids"]
            assert run not in [said[i : i + len(run)] for i in range(len(said))], word
    assert clean["text"] != plain["text"]


def test_only_allowed_tokens_are_chosen(server):
    allowed = tokens_of(server, " a b c")
    for choice in complete(server, allowed_token_ids=allowed, temperature=2, n=3, seed=1):
        assert set(choice["token_ids"]) <= set(allowed) and len(choice["token_ids"]) == 12


def test_a_prompt_is_cut_at_its_beginning(server):
    ids = tokens_of(server, "one two three four five")
    [cut] = complete(server, ids, truncate_prompt_tokens=3)
    assert cut["prompt_token_ids"] == ids[-3:] and cut["token_ids"] == complete(server, ids[-3:])[0]["token_ids"]
    with serving("--context", 64) as small:
        [fits] = complete(small, "x " * 100, truncate_prompt_tokens=-1, max_tokens=2)
        assert len(fits["prompt_token_ids"]) == 64 - 2 and len(fits["token_ids"]) == 2


def test_an_answer_goes_on_with_the_last_message(server):
    begun = [*QUESTION, {"role": "assistant", "content": "17 + 25 = 4", "reasoning": "Add the digits."}]
    reply = chat(server, messages=begun, continue_final_message=True, add_generation_prompt=False)[0]
    text = ask(server, "/apply-template", {"messages": begun, "continue_final_message": True})[0]["prompt"]
    assert text.endswith("Add the digits.<|end|><|start|>assistant<|channel|>final<|message|>17 + 25 = 4")
    [same] = complete(server, text, stop_token_ids=tokens_of(server, "<|return|>"), max_tokens=100)
    assert reply["choices"][0]["message"]["content"] == same["text"] != ""
    open_end = ask(server, "/apply-template", {"messages": QUESTION, "add_generation_prompt": False})[0]["prompt"]
    assert open_end.endswith("<|end|>")


def test_token_ids_are_those_of_the_text(server):
    whole = chat(server, return_token_ids=True)[0]
    assert len(whole["prompt_token_ids"]) == whole["usage"]["prompt_tokens"]
    ids = whole["choices"][0]["token_ids"]
    assert len(ids) == whole["usage"]["completion_tokens"]
    chunks = list(server.client().chat.completions.create(model="tiny", messages=QUESTION, temperature=0, stream=True, extra_body={"return_token_ids": True}))
    assert [token for chunk in chunks for token in chunk.choices[0].token_ids] == ids
    assert chunks[0].prompt_token_ids == whole["prompt_token_ids"]


def test_the_best_of_several_is_the_likeliest(server):
    request = dict(temperature=1.5, seed=4, max_tokens=6, logprobs=0, n=6)
    means = [sum(c["logprobs"]["token_logprobs"]) / 6 for c in complete(server, **request)]
    best = complete(server, **{**request, "n": 2, "best_of": 6})
    told = [sum(c["logprobs"]["token_logprobs"]) / 6 for c in best]
    assert told == pytest.approx(sorted(means, reverse=True)[:2]) and [c["index"] for c in best] == [0, 1]


def test_the_usage_so_far_is_in_every_chunk(server):
    def usages(**options):
        stream = server.client().chat.completions.create(
            model="tiny", messages=QUESTION, temperature=0, stream=True, stream_options={"include_usage": True, **options}
        )
        return [(chunk.usage, chunk.choices) for chunk in stream]

    told = usages(continuous_usage_stats=True)
    counts = [usage.completion_tokens for usage, _ in told]
    assert counts == sorted(counts) and counts[0] >= 1 and told[-1][0] == told[-2][0]
    told = usages()
    assert all(usage is None for usage, _ in told[:-1]) and told[-1][0].completion_tokens == counts[-1]
    assert told[-1][1] == []


def test_a_token_without_text_has_a_chunk_where_usage_is_in_every_chunk(server):
    """Control tokens have no text. 200,008 is one of gpt-oss's; the tiny model has it under another id."""
    control = tokens_of(server, "<|message|>")

    def chunks(**options):
        return list(server.client().completions.create(
            model="tiny", prompt="It was", max_tokens=3, stream=True, stream_options={"include_usage": True, **options},
            extra_body={"allowed_token_ids": control, "ignore_eos": True}))

    *tokens, last, usage = chunks(continuous_usage_stats=True)
    assert [(chunk.usage.completion_tokens, chunk.choices[0].text) for chunk in tokens] == [(1, ""), (2, ""), (3, "")]
    assert last.choices[0].finish_reason == "length" and usage.usage.completion_tokens == 3
    assert len(chunks()) == 2  # the end, then the usage


@pytest.mark.parametrize(
    "fields, effort, told",
    [
        (dict(reasoning_effort="high"), "high", None),
        (dict(reasoning={"effort": "low"}), "low", None),
        (dict(chat_template_kwargs={"reasoning_effort": "high"}), "high", None),
        (dict(reasoning_effort="none"), "low", "reasoning_effort (low)"),
        (dict(reasoning_effort="minimal"), "low", "reasoning_effort (low)"),
        (dict(reasoning={"effort": "xhigh"}), "high", "reasoning.effort (high)"),
    ],
)
def test_every_name_of_the_effort_reaches_the_model(server, fields, effort, told):
    reply, headers = ask(server, "/apply-template", {"messages": QUESTION, **fields})
    assert f"Reasoning: {effort}" in reply["prompt"] and headers[IGNORED] == told


def test_reasoning_is_left_out_where_nobody_wants_it(server):
    for fields in (dict(include_reasoning=False), dict(reasoning={"exclude": True})):
        message = chat(server, **fields)[0]["choices"][0]["message"]
        assert message["content"] == "17 + 25 = 42." and "reasoning" not in message
        stream = server.client().chat.completions.create(model="tiny", messages=QUESTION, temperature=0, stream=True, extra_body=fields)
        assert not any(getattr(chunk.choices[0].delta, "reasoning", None) for chunk in stream)


@pytest.mark.parametrize("field", ["use_beam_search", "structural_tag", "chat_template", "typical_p", "lora_path", "audio"])
def test_what_would_change_the_text_is_refused_by_its_name(server, field):
    with pytest.raises(openai.BadRequestError) as error:
        server.client().chat.completions.create(model="tiny", messages=QUESTION, tools=TOOLS, extra_body={field: {"x": 1}})
    assert error.value.param == field
