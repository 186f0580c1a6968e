"""Tests log-probabilities of prompts as evaluation harnesses request them, and lm-eval itself."""

import json
import math

import openai
import pytest

from test_fields import ask, complete, serving, tokens_of

TEXT = "The grass is green and the sky is blue. " * 3


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


def echoed(server, prompt, **fields):
    [choice] = complete(server, prompt, echo=True, logprobs=2, max_tokens=1, **fields)
    return choice


def test_they_are_those_that_generating_the_text_gives(server):
    [said] = complete(server, TEXT, logprobs=2, max_tokens=20)
    ids = tokens_of(server, TEXT)
    lists = echoed(server, ids + said["token_ids"])["logprobs"]
    assert lists["token_logprobs"][len(ids) : -1] == said["logprobs"]["token_logprobs"]
    assert lists["top_logprobs"][len(ids) : -1] == said["logprobs"]["top_logprobs"]
    assert lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None
    assert len(lists["tokens"]) == len(lists["text_offset"]) == len(ids) + 20 + 1
    # A greedy token has exactly the largest log-probability.
    for token, top in zip(said["logprobs"]["token_logprobs"], lists["top_logprobs"][len(ids) :]):
        assert token == max(top.values())


def test_the_lists_are_those_of_the_text(server):
    choice = echoed(server, TEXT)
    lists = choice["logprobs"]
    assert "".join(lists["tokens"]) == choice["text"] and choice["text"].startswith(TEXT)
    for token, offset in zip(lists["tokens"], lists["text_offset"]):
        assert choice["text"][offset:].startswith(token)


@pytest.mark.parametrize("flags", [(), ("--max-batch-tokens", 7), ("--prefix-cache", "off")])
def test_they_do_not_depend_on_how_a_prompt_is_cut(server, flags):
    expected = echoed(server, TEXT)
    with serving(*flags) as other:
        for _ in range(2):  # in the second round the prompt is in the prefix cache
            assert echoed(other, TEXT) == expected


def test_without_tokens_to_generate_the_lists_end_with_the_prompt(server):
    ids = tokens_of(server, TEXT)
    body = {"prompt": [ids, ids[:5]], "echo": True, "logprobs": 1, "max_tokens": 0}
    reply = ask(server, "/v1/completions", body)[0]
    assert reply["usage"]["completion_tokens"] == 0 and reply["usage"]["prompt_tokens"] == len(ids) + 5
    for choice, length in zip(reply["choices"], (len(ids), 5)):
        assert len(choice["logprobs"]["tokens"]) == length and choice["finish_reason"] == "length"
    assert reply["choices"][0]["text"] == TEXT
    [nothing] = complete(server, "x", max_tokens=0)
    assert nothing["text"] == ""


def test_a_stream_has_them_in_its_first_chunk(server):
    request = dict(model="tiny", prompt=TEXT, temperature=0, max_tokens=3, echo=True, logprobs=1)
    whole = server.client().completions.create(**request).choices[0].logprobs
    sums = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for chunk in server.client().completions.create(**request, stream=True):
        if chunk.choices[0].logprobs:
            for key, values in sums.items():
                values += getattr(chunk.choices[0].logprobs, key)
    assert sums == {key: getattr(whole, key) for key in sums}


def test_vllms_form_has_the_same_numbers(server):
    lists = echoed(server, TEXT)["logprobs"]
    ids = tokens_of(server, TEXT)
    [choice] = complete(server, TEXT, prompt_logprobs=2, max_tokens=1)
    rows = choice["prompt_logprobs"]
    assert rows[0] is None and len(rows) == len(ids)
    for position in range(1, len(ids)):
        row = rows[position][str(ids[position])]
        assert row["logprob"] == lists["token_logprobs"][position] and row["decoded_token"] == lists["tokens"][position]
        assert {entry["rank"] for entry in rows[position].values()} in ({1, 2}, {1, 2, None})
    messages = [{"role": "user", "content": "Hi"}]
    chat = ask(server, "/v1/chat/completions", {"messages": messages, "max_tokens": 1, "prompt_logprobs": 0})[0]
    assert len(chat["prompt_logprobs"]) == chat["usage"]["prompt_tokens"]
    assert all(len(row) == 1 for row in chat["prompt_logprobs"][1:])


def test_too_many_are_refused(server):
    with pytest.raises(openai.BadRequestError) as error:
        server.client().completions.create(model="tiny", prompt=[4 * TEXT] * 16, n=16, echo=True, logprobs=20)
    assert error.value.param == "logprobs" and "524288 are accepted" in str(error.value)


# lm-eval


def write_task(folder, name, kind, rows, **more):
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": kind,
        "doc_to_text": "{{question}}",
        **more,
    }
    (folder / f"{name}.yaml").write_text(json.dumps(lines))  # JSON is YAML


def test_lm_eval_runs_a_task_of_each_kind(server, tmp_path, monkeypatch):
    for name in ("HF_HOME", "HF_DATASETS_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "1")
    import lm_eval
    from lm_eval.tasks import TaskManager

    rows = [{"question": f"{a} + {b} =", "choices": [f" {a + b}", " fish"], "gold": 0} for a, b in ((1, 1), (2, 3), (4, 5))]
    write_task(tmp_path, "choices", "multiple_choice", rows, doc_to_choice="{{choices}}", doc_to_target="{{gold}}", metric_list=[{"metric": "acc"}])
    write_task(tmp_path, "said", "generate_until", [{**row, "answer": "x"} for row in rows], doc_to_target="{{answer}}", generation_kwargs={"until": ["\n"], "max_gen_toks": 6}, metric_list=[{"metric": "exact_match"}])
    results = lm_eval.simple_evaluate(
        model="local-completions",
        model_args=f"model=tiny,base_url={server.url}/v1/completions,tokenizer_backend=remote,max_length=4096",
        tasks=["choices", "said"],
        task_manager=TaskManager(include_path=str(tmp_path), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
    )
    for sample in results["samples"]["choices"]:
        for argument, [loglikelihood, is_greedy] in zip(sample["arguments"], sample["filtered_resps"]):
            context, choice = argument
            ids, whole = tokens_of(server, context), tokens_of(server, context + choice)
            lists = echoed(server, whole)["logprobs"]
            expected = lists["token_logprobs"][len(ids) : len(whole)]
            assert math.isclose(float(loglikelihood), sum(expected), rel_tol=1e-6)
            greedy = all(one == max(top.values()) for one, top in zip(expected, lists["top_logprobs"][len(ids) :]))
            assert str(is_greedy) == str(greedy)
    for sample in results["samples"]["said"]:
        [said] = complete(server, sample["arguments"][0][0], stop=["\n"], max_tokens=6)
        assert sample["filtered_resps"] == [said["text"]]
