"""Tests drafts over HTTP and on the command line: the same answers, and statistics about the drafts. NIBBLE_BINARY is
the program's path."""

import json
import pathlib

import openai
import pytest

from test_cli import nibble
from test_metrics import scrape
from test_serve import QUESTION, serving

HEAD = pathlib.Path(__file__).parents[2] / "models/tiny-gpt-oss-eagle3/specforge"
REPEAT = [{"role": "user", "content": "Repeat after me: befallen cable longing torch"}]
NAMES = {
    "type": "json_schema",
    "json_schema": {
        "name": "names",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"names": {"type": "array", "items": {"enum": ["cat", "dog"]}, "minItems": 4, "maxItems": 6}},
            "required": ["names"],
            "additionalProperties": False,
        },
    },
}
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def answers(server):
    """Returns answers of many kinds as the API gives them, some to several requests at once."""
    client = server.client()

    def ask(**fields):
        reply = client.chat.completions.create(model="tiny", **{"messages": QUESTION, "seed": 3} | fields)
        choices = [choice.model_dump() for choice in reply.choices]
        for call in choices[0]["message"]["tool_calls"] or []:
            del call["id"]  # ids are random
        return choices, reply.usage.completion_tokens

    def stream(**fields):
        chunks = client.chat.completions.create(model="tiny", messages=REPEAT, seed=3, stream=True, **fields)
        return [chunk.choices[0].delta.model_dump() for chunk in chunks if chunk.choices]

    return [
        ask(temperature=0),
        ask(temperature=0),  # now cached
        ask(messages=REPEAT, temperature=0.7, logprobs=True, top_logprobs=3),
        ask(n=4, temperature=1.2, top_p=0.9, presence_penalty=0.5, frequency_penalty=0.5),
        ask(temperature=0, stop=" = "),
        ask(temperature=0, max_tokens=9),
        ask(response_format=NAMES, max_tokens=200),
        ask(messages=[{"role": "user", "content": "How is the weather in Paris?"}], tools=[WEATHER], tool_choice="required"),
        stream(temperature=0.5),
        stream(temperature=0, logprobs=True, extra_body={"return_token_ids": True}),
    ]


def test_every_way_to_draft_gives_the_answers_of_none():
    with serving("--speculate", "off") as server:
        plain = answers(server)
        _, samples = scrape(server)
        assert samples[("vllm:spec_decode_num_drafts_total", ("engine", "0"))] == 0
    config = '{"method": "ngram", "num_speculative_tokens": 7, "prompt_lookup_min": 2}'
    head = json.dumps({"method": "eagle3", "model": str(HEAD), "num_speculative_tokens": 3})
    model = json.dumps({"method": "draft_model", "model": "tiny", "num_speculative_tokens": 3})
    tree = '{"method": "suffix", "num_speculative_tokens": 8, "topk": 3}'
    tree_of_head = json.dumps({"method": "eagle3", "model": str(HEAD), "num_speculative_tokens": 6, "topk": 2})
    by_cost = [("--speculate", "auto"), ("--speculate", f"eagle3={HEAD}"), ("--speculate", "model=tiny")]
    configs = [("--speculative-config", how) for how in (config, head, model, tree, tree_of_head)]
    always = [("--speculate", "suffix"), *configs]
    for flags in by_cost + always:
        with serving(*flags) as server:
            assert answers(server) == plain, flags
            _, samples = scrape(server)

            def total(name, *labels):
                of_vllm = samples[("vllm:" + name, *sorted([("engine", "0"), *labels]))]
                assert of_vllm == samples[("nibble:" + name, *labels)]
                return of_vllm

            if flags in by_cost:
                continue  # the machine decides whether drafts gain time
            drafted, right = total("spec_decode_num_draft_tokens_total"), total("spec_decode_num_accepted_tokens_total")
            assert drafted >= right > 0 and total("spec_decode_num_drafts_total") > 0
            first = total("spec_decode_num_accepted_tokens_per_pos_total", ("position", "0"))
            assert 0 < first <= right


def test_what_a_client_predicts_is_drafted_and_counted():
    with serving("--speculate", "ngram") as server:
        client = server.client()
        ask = {"model": "tiny", "messages": QUESTION, "temperature": 0}
        plain = client.chat.completions.create(**ask)
        assert plain.usage.completion_tokens_details.accepted_prediction_tokens is None
        text = plain.choices[0].message.content
        for content in (text, [{"type": "text", "text": text[:4]}, {"type": "text", "text": text[4:]}]):
            reply = client.chat.completions.create(**ask, prediction={"type": "content", "content": content})
            assert reply.choices == plain.choices
            details = reply.usage.completion_tokens_details
            assert details.accepted_prediction_tokens > 3 and details.rejected_prediction_tokens == 0
        wrong = client.chat.completions.create(
            **ask, n=2, prediction={"type": "content", "content": "Nobody has ever said that before."}
        )
        assert wrong.choices[0].message == plain.choices[0].message
        details = wrong.usage.completion_tokens_details
        assert details.accepted_prediction_tokens == 0 and details.rejected_prediction_tokens > 10
        for bad in ({"type": "text", "content": "x"}, {"type": "content"}, {"type": "content", "content": 7}):
            with pytest.raises(openai.BadRequestError, match="prediction"):
                client.chat.completions.create(**ask, prediction=bad)


def test_run_says_what_the_drafts_came_to():
    ask = ("run", "tiny", "--stats", "-p", "Repeat after me: befallen cable longing torch", "--temperature", "0")
    plain, drafted = nibble(*ask, "--speculate", "off"), nibble(*ask, "--speculate", "ngram")
    assert drafted.returncode == 0 and drafted.stdout == plain.stdout
    assert b"tokens per step" not in plain.stderr
    assert b" tokens per step, " in drafted.stderr and b"by position 0." in drafted.stderr
    report = json.loads(nibble(*ask, "--speculate", "ngram", "--json").stdout)
    assert report["num_steps"] + report["num_accepted_tokens"] == report["num_output_tokens"]
    assert report["num_draft_tokens"] >= report["num_accepted_tokens"] > 0
    assert 0 < report["draft_acceptance"][0] <= 1


def test_what_cannot_be_drafted_with_is_refused_in_a_line():
    for flags, why in [
        (("--speculate", "eagle3"), b"auto, off, ngram, suffix, eagle3=FOLDER, model=MODEL"),
        (("--speculate", "model=synthetic:gpt-oss-20b"), b"a vocabulary of 201088 tokens and tiny one of 4096"),
        (("--speculate", "eagle3=/nowhere"), b"/nowhere: not a draft head"),
        (("--speculate", f"eagle3={HEAD.parents[1] / 'tiny-gpt-oss'}"), b"'architectures'"),
        (("--speculative-config", '{"method": "suffix", "topk": 9}'), b"topk must be a whole number from 1 to 8"),
        (("--speculative-config", '{"method": "medusa"}'), b"must be ngram, suffix, eagle3 or draft_model"),
        (("--speculate", "auto", "--speculative-config", '{"method": "ngram"}'), b"exclude each other"),
    ]:
        refused = nibble("run", "tiny", "-p", "x", *flags)
        assert refused.returncode == 2 and why in refused.stderr and refused.stderr.count(b"\n") == 1


def test_bench_replays_requests_with_drafts_and_without(tmp_path):
    file = tmp_path / "requests.jsonl"
    file.write_text('{"prompt": "What is 17 + 25?", "prediction": "17 + 25 = 42."}\n{"prompt": "one two one two one", "raw": true, "max_tokens": 20}\n')
    bench = ("bench", "replay", "tiny", file, "-r", 1)
    table = nibble(*bench, "--speculate", "suffix", "--clients", 2).stdout.decode()
    assert "| off | " in table and "| suffix | " in table and "2 answers" in table
    record = json.loads(nibble(*bench, "--speculate", "ngram", "--json").stdout)
    off, on = record["ways"]
    assert off["tokens_per_step"] == 1 < on["tokens_per_step"]
    assert "| auto | " in nibble(*bench).stdout.decode()
    assert b"choose a method" in nibble(*bench, "--speculate", "off").stderr
    assert b"bench replay" in nibble("bench", "tiny", "--speculate", "auto").stderr
    file.write_text('{"prompt": 7}\n')
    assert b"line 1.prompt" in nibble(*bench, "--speculate", "auto").stderr


def test_forced_acceptance_says_what_drafts_would_give():
    ran = nibble("bench", "acceptance", "tiny", "1,1,0", "0", "-n", "60", "-r", "1", "--threads", "1", "--json")
    assert ran.returncode == 0, ran.stderr
    record = json.loads(ran.stdout)
    assert [step["rows"] for step in record["steps"]] == [1, 2, 3, 4, 6, 8, 16]
    assert all(step["seconds"] > 0 and step["by_bytes"] >= 1 for step in record["steps"])
    tokens = {(run["acceptance"], run["drafts"]): run["tokens_per_step"] for run in record["runs"]}
    # The first two drafts are right and the third is wrong, for any number of drafts.
    assert [tokens["1,1,0", drafts] for drafts in ("off", "1 drafts", "3 drafts", "5 drafts")] == [1, 2, 3, 3]
    assert all(tokens["0", drafts] == 1 for drafts in ("off", "1 drafts", "3 drafts", "5 drafts", "auto"))
    assert 1 <= tokens["1,1,0", "auto"] <= 3
    # Which drafts are right is the same in each run of the program, but different in each repetition.
    def tokens_a_step(repetitions):
        ask = ("0.5", "-n", "60", "-r", str(repetitions), "--threads", "1", "--json")
        return [run["tokens_per_step"] for run in json.loads(nibble("bench", "acceptance", "tiny", *ask).stdout)["runs"] if run["drafts"] != "auto"]

    once, again, twice = tokens_a_step(1), tokens_a_step(1), tokens_a_step(2)
    assert once == again and once[0] == twice[0] == 1 and once[2] != twice[2]
    for wrong in ("1.5", "0.5,", "", "x"):
        refused = nibble("bench", "acceptance", "tiny", wrong)
        assert refused.returncode == 2 and b"PROFILE" in refused.stderr, wrong
