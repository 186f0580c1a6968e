"""Tests adapters that requests choose (--lora-modules) against a forward pass in float64, with several in one step."""

import concurrent.futures
import json
import urllib.error
import urllib.request

import numpy
import pytest

from test_cli import answer, refusal
from test_lora import LAYERS, NAMES, TEXT, Adapter, logits_of, read_model
from test_serve import serving

CHAT = [{"role": "user", "content": "Name three colours, one per line, and then say which one you like best and why."}]
THINKING = {"thinking": {"type": "adaptive", "display": "summarized"}}


class Apart(Adapter):
    """An adapter whose sums are not rounded."""

    def __init__(self, folder, seed, **fields):
        super().__init__(folder, **fields)
        self.random = numpy.random.default_rng(seed)

    def add(self, module, weight):
        a = self.factor(module + ".lora_A.weight", self.rank, weight.shape[1])
        b = self.factor(module + ".lora_B.weight", weight.shape[0], self.rank)
        weight += self.scale * (b @ a)


def add_layers(adapter, *shorts):
    for n in range(LAYERS):
        for short in shorts:
            adapter.add(f"model.layers.{n}.{NAMES[short]}", adapter.model[n][short])


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    """Three adapters: of every matrix that requests may change, of q and v, of o, the router and lm_head."""
    folder = tmp_path_factory.mktemp("adapters")
    every, some, rest = (Apart(folder / name, seed, rank=rank) for seed, (name, rank) in enumerate(RANKS.items()))
    add_layers(every, *NAMES)
    every.add("lm_head", every.model["head"])
    add_layers(some, "q", "v")
    add_layers(rest, "o", "router")
    rest.add("lm_head", rest.model["head"])
    for adapter in (every, some, rest):
        adapter.write()
    return {"every": every, "some": some, "rest": rest}


RANKS = {"every": 4, "some": 9, "rest": 2}


def flags_of(adapters):
    return [word for name, adapter in adapters.items() for word in ("--lora-modules", f"{name}={adapter.folder}")]


@pytest.fixture(scope="module")
def server(adapters):
    with serving(*flags_of(adapters), "--backend", "cpu", "--served-model-name", "tiny", "--served-model-name", "base") as running:
        yield running


@pytest.fixture(scope="module")
def ids():
    return [int(number) for number in answer("tokenize", "tiny", stdin=TEXT.encode()).split()]


def post(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)


def get(server, path):
    with urllib.request.urlopen(server.url + path, timeout=60) as reply:
        return json.load(reply)


def logprobs(server, model, ids):
    """Returns the log probability of each token of the prompt after the first."""
    body = {"model": model, "prompt": ids, "echo": True, "logprobs": 0, "max_tokens": 1}
    (choice,) = post(server, "/v1/completions", body)["choices"]
    return choice["logprobs"]["token_logprobs"][1 : len(ids)]


def expected_logprobs(model, ids):
    logits = logits_of(model, ids)
    shifted = logits - logits.max(-1, keepdims=True)
    rows = shifted - numpy.log(numpy.exp(shifted).sum(-1, keepdims=True))
    return numpy.array([rows[t, ids[t + 1]] for t in range(len(ids) - 1)]), logits


def at_once(server, models, ids):
    """Sends a request for each model at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(models)) as pool:
        return list(pool.map(lambda model: logprobs(server, model, ids), models))


def test_three_adapters_and_none_in_one_step_give_the_logits_of_their_merged_matrices(adapters, ids):
    models = ["tiny", *adapters]
    expected = [expected_logprobs(model, ids)[0] for model in (read_model(), *(a.model for a in adapters.values()))]
    assert all(numpy.abs(expected[0] - other).max() > 0.5 for other in expected[1:]), "the adapters change too little"
    with serving(*flags_of(adapters), "--backend", "reference") as server:
        for values, of_model in zip(at_once(server, models, ids), expected, strict=True):
            assert values == pytest.approx(of_model, abs=1e-4)


def test_the_cpu_rounds_only_keys_and_values(server, adapters, ids):
    for name, values in zip(adapters, at_once(server, list(adapters), ids), strict=True):
        expected, logits = expected_logprobs(adapters[name].model, ids)
        # golden_tolerance.cpp: the error of int8 experts, and 0.4 more where a router chooses another expert.
        error = 3 * 2**0.5 * (5**2 + 3.5 * 32) ** 0.5 * 2**-8 * LAYERS**0.5 / 3 * numpy.sqrt((logits**2).mean())
        difference = numpy.abs(numpy.array(values) - expected)
        assert numpy.median(difference) < error and difference.max() < numpy.hypot(error, 2**0.5 * 0.4), name


def test_a_merged_adapter_differs_by_the_rounding_to_bf16(adapters, ids):
    folder = adapters["every"].folder
    with serving("--lora", folder, "--backend", "reference") as merged, serving(*flags_of(adapters), "--backend", "reference") as apart:
        difference = numpy.abs(numpy.array(logprobs(merged, "tiny", ids)) - numpy.array(logprobs(apart, "tiny:every", ids)))
    logits = logits_of(adapters["every"].model, ids)
    # golden_tolerance.cpp: as for BF16 keys and values, and one more rounding each of the outputs of o and of lm_head.
    error = 3 * 2**0.5 * (5**2 + 2) ** 0.5 * 2**-8 * LAYERS**0.5 / 3 * numpy.sqrt((logits**2).mean())
    assert numpy.median(difference) < error and difference.max() < numpy.hypot(error, 2**0.5 * 0.4)
    assert difference.max() > 0


def test_requests_at_once_have_the_bits_of_requests_alone(server, adapters, ids):
    models = ["tiny", *adapters]
    alone = [logprobs(server, model, ids) for model in models]
    assert at_once(server, models, ids) == alone
    with serving("--backend", "cpu") as bare:
        assert logprobs(bare, "tiny", ids) == alone[0]


def test_models_lists_the_adapters_with_their_parent(server):
    rows = get(server, "/v1/models")["data"]
    assert [(row["id"], row["parent"]) for row in rows] == [
        ("tiny", None), ("base", None), ("every", "tiny"), ("some", "tiny"), ("rest", "tiny")
    ]  # fmt: skip
    assert get(server, "/v1/models/some")["parent"] == "tiny"
    assert get(server, "/v1/models/base:some")["parent"] == "tiny"
    tags = {row["name"]: row["details"]["parent_model"] for row in get(server, "/api/tags")["models"]}
    assert tags == {"tiny:latest": "", "base:latest": "", "every:latest": "tiny", "some:latest": "tiny", "rest:latest": "tiny"}


def chat(server, model):
    body = {"model": model, "messages": CHAT, "temperature": 0, "max_tokens": 24}
    reply = post(server, "/v1/chat/completions", body)
    return reply["model"], str(reply["choices"][0]["message"])


def completion(server, model):
    reply = post(server, "/v1/completions", {"model": model, "prompt": TEXT, "temperature": 0, "max_tokens": 16})
    return reply["model"], reply["choices"][0]["text"]


def response(server, model):
    reply = post(server, "/v1/responses", {"model": model, "input": CHAT[0]["content"], "temperature": 0, "max_output_tokens": 24})
    return reply["model"], str([(item["type"], item.get("content")) for item in reply["output"]])


def message(server, model):
    reply = post(server, "/v1/messages", {"model": model, "messages": CHAT, "temperature": 0, "max_tokens": 24, **THINKING})
    return reply["model"], str(reply["content"])


def ollama_chat(server, model):
    body = {"model": model, "messages": CHAT, "stream": False, "options": {"temperature": 0, "num_predict": 24}}
    reply = post(server, "/api/chat", body)
    return reply["model"], str(reply["message"])


def ollama_generate(server, model):
    body = {"model": model, "prompt": TEXT, "raw": True, "stream": False, "options": {"temperature": 0, "num_predict": 16}}
    reply = post(server, "/api/generate", body)
    return reply["model"], reply["response"]


@pytest.mark.parametrize("ask", [chat, completion, response, message, ollama_chat, ollama_generate])
def test_every_api_takes_the_name_alone_or_after_the_models(server, ask):
    base, every = ask(server, "tiny"), ask(server, "every")
    assert base[0] == "tiny" and every[0] == "every" and base[1] != every[1]
    for name in ("tiny:every", "base:every", "every:latest"):
        assert ask(server, name) == every
    assert ask(server, "base:latest") == base
    for name in ("other", "tiny:other", "every:some", "every:tiny", ":every", "tiny:"):
        with pytest.raises(urllib.error.HTTPError) as raised:
            ask(server, name)
        assert raised.value.code == 404
        error = json.load(raised.value)["error"]
        assert "does not exist. This server has `tiny`, `every`, `some`, `rest`." in (error if isinstance(error, str) else error["message"])


def test_adapters_share_no_pages_of_the_prefix_cache(adapters):
    def cached(server, model, salt=None):
        body = {"model": model, "prompt": TEXT * 3, "max_tokens": 1, "temperature": 0}
        usage = post(server, "/v1/completions", body | ({"cache_salt": salt} if salt else {}))["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    with serving(*flags_of(adapters), "--backend", "cpu") as server:
        for model in ("tiny", "every", "some"):
            assert cached(server, model) == 0
        for model in ("tiny", "every", "tiny:some"):
            assert cached(server, model) >= 32
        assert cached(server, "tiny", "1:") == 0  # not the key of the second adapter
        assert cached(server, "every", "1:") == 0
        assert cached(server, "every", "1:") >= 32


def test_drafts_do_not_change_the_answers_of_adapters(server, adapters):
    body = {"prompt": "one two three one two three one two", "temperature": 0, "max_tokens": 48, "ignore_eos": True}
    with serving(*flags_of(adapters), "--backend", "cpu", "--speculate", "ngram") as drafting:
        for model in ("tiny", "every", "rest"):
            texts = [post(each, "/v1/completions", body | {"model": model})["choices"][0]["text"] for each in (server, drafting)]
            assert texts[0] == texts[1]


def test_an_adapter_may_be_scaled_and_named_by_json(adapters, tmp_path, ids):
    folder = adapters["some"].folder
    gone = json.dumps({"name": "gone", "path": f"{folder}:0", "base_model_name": "openai/gpt-oss-20b"})
    with serving("--lora-modules", gone, "--lora-modules", f"half={folder}:0.5", "--backend", "reference") as server:
        rows = {row["id"]: row["parent"] for row in get(server, "/v1/models")["data"]}
        assert rows == {"tiny": None, "gone": "openai/gpt-oss-20b", "half": "tiny"}
        assert logprobs(server, "gone", ids) == logprobs(server, "tiny", ids)
        half = Apart(tmp_path / "half", 1, rank=RANKS["some"], alpha=4)
        add_layers(half, "q", "v")
        assert logprobs(server, "half", ids) == pytest.approx(expected_logprobs(half.model, ids)[0], abs=1e-4)


def test_merged_adapters_and_adapters_of_requests_add_up(adapters, tmp_path, ids):
    both = Apart(tmp_path / "both", 1, rank=RANKS["some"])
    add_layers(both, "q", "v")
    merged = Adapter(tmp_path / "merged", rank=RANKS["rest"])  # its sums are rounded to BF16
    merged.random, merged.model = numpy.random.default_rng(2), both.model
    add_layers(merged, "o", "router")
    merged.add("lm_head", merged.model["head"])
    with serving("--lora", adapters["rest"].folder, *flags_of({"some": adapters["some"]}), "--backend", "reference") as server:
        # A sum in float32 rarely rounds to another BF16 number than the sum in float64 here: 2^-8 of one weight.
        assert logprobs(server, "some", ids) == pytest.approx(expected_logprobs(both.model, ids)[0], abs=2e-3)


def test_what_cannot_be_served_is_named(adapters, tmp_path):
    folder = adapters["some"].folder
    serve = ["serve", "tiny", "--check", "--backend", "cpu", "--lora-modules"]
    assert "expected NAME=FILE, or JSON with name and path" in refusal(*serve, folder)
    assert "the model itself is called tiny" in refusal(*serve, f"tiny={folder}")
    assert "another adapter is called x" in refusal(*serve, f"x={folder}", "--lora-modules", f"x={folder}")
    for name in ("", "a:b", "a b", "latest"):
        assert "expected NAME=FILE, where NAME has no spaces and colons" in refusal(*serve, f"{name}={folder}")
    assert "--lora-modules 'absent': no such adapter: looked for " in refusal(*serve, "x=absent")
    assert "expected JSON with the texts name and path" in refusal(*serve, '{"name": 1')
    assert "expected name, path and base_model_name, not rank" in refusal(*serve, '{"rank": 1}')
    experts = Apart(tmp_path / "experts", 5)
    experts.add_modules()
    message = refusal(*serve, f"x={experts.write()}")
    assert "the adapter changes experts' down of layer 0; requests can" in message and "merge this one into the model with --lora" in message
    embedding = Apart(tmp_path / "embedding", 5)
    embedding.factor("model.embed_tokens.lora_embedding_A", 4, len(embedding.model["embed"]))
    embedding.factor("model.embed_tokens.lora_embedding_B", len(embedding.model["embed"][0]), 4)
    assert "the adapter changes embedding; requests can choose only" in refusal(*serve, f"x={embedding.write()}")


def test_the_check_names_the_adapters(adapters):
    folder = adapters["rest"].folder
    text = answer("serve", "tiny", "--check", "--backend", "cpu", "--lora-modules", f"rest={folder}:2")
    assert f"  adapter   rest: {folder}: rank 2, scale 8: o 6, router 6, lm_head 1\n" in text
