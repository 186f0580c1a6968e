"""Tests LoRA adapters (--lora) against a forward pass in float64, and against a model that is merged here."""

import json
import shutil
import urllib.request

import gguf
import numpy
import pytest

from test_cli import QUESTION, ROOT, TINY, answer, nibble, refusal
from test_experts import inspected
from test_fine_tunes import replace_tensors, write_safetensors
from test_gguf import read_safetensors, rounded_to_bf16, widened
from test_serve import serving

LAYERS, HIDDEN, WIDTH, EXPERTS, HEADS, KV_HEADS, DIM, WINDOW = 6, 256, 128, 16, 8, 2, 64, 128
TEXT = "The Time Traveller smiled round at us. Then, with his hands deep in his pockets, he walked slowly out."
PREFIX = "base_model.model."
NAMES = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj"}
NAMES |= {"router": "mlp.router"}
E2M1 = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


# the model in float64


def read_model():
    """Returns {"embed", "head", layer: {"q", "gate_up" [E, 2I, H], ...}} in float64."""
    tensors = read_safetensors(TINY)

    def floats(name):
        return widened(tensors[name]).astype("f8")

    def experts(name):
        codes, scales = tensors[name + "_blocks"], tensors[name + "_scales"]
        raw = numpy.frombuffer(codes[2], "u1").reshape(codes[1])
        values = E2M1[numpy.stack([raw & 15, raw >> 4], -1)].reshape(*raw.shape[:-1], 32)
        values = values * 2.0 ** (numpy.frombuffer(scales[2], "u1").reshape(scales[1])[..., None] - 127.0)
        return values.reshape(*raw.shape[:2], -1)

    model = {"embed": floats("model.embed_tokens.weight"), "head": floats("lm_head.weight")}
    model["norm"] = floats("model.norm.weight")
    for n in range(LAYERS):
        layer = f"model.layers.{n}."
        model[n] = {short: floats(f"{layer}{name}.weight") for short, name in NAMES.items()}
        model[n] |= {short + "_bias": floats(f"{layer}{name}.bias") for short, name in NAMES.items()}
        model[n] |= {"sinks": floats(layer + "self_attn.sinks"), "norm1": floats(layer + "input_layernorm.weight")}
        model[n]["norm2"] = floats(layer + "post_attention_layernorm.weight")
        for short in ("gate_up", "down"):
            model[n][short] = experts(f"{layer}mlp.experts.{short}_proj")
            model[n][short + "_bias"] = floats(f"{layer}mlp.experts.{short}_proj_bias")
    return model


def normed(x, weight):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def rotated(x):
    """YaRN of the bundled model: theta 150000, factor 32 from 4096 positions, not truncated."""
    half = DIM // 2
    frequencies = 150000.0 ** (-numpy.arange(half) / half)
    low, high = (half * numpy.log(4096 / (turns * 2 * numpy.pi)) / numpy.log(150000) for turns in (32, 1))
    kept = 1 - numpy.clip((numpy.arange(half) - low) / (high - low), 0, 1)
    angles = numpy.arange(len(x))[:, None] * (frequencies / 32 * (1 - kept) + frequencies * kept)
    size = 0.1 * numpy.log(32) + 1
    cos, sin = numpy.cos(angles)[:, None] * size, numpy.sin(angles)[:, None] * size
    first, second = x[..., :half], x[..., half:]
    return numpy.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def attention(x, layer, slides):
    count = len(x)
    heads = {name: (x @ layer[name].T + layer[name + "_bias"]).reshape(count, -1, DIM) for name in "qkv"}
    q, k = rotated(heads["q"]), rotated(heads["k"])
    at = numpy.arange(count)
    seen = at[None] <= at[:, None]
    if slides:
        seen &= at[:, None] - at[None] < WINDOW
    out = numpy.empty((count, HEADS, DIM))
    for head in range(HEADS):
        group = head // (HEADS // KV_HEADS)
        scores = numpy.where(seen, q[:, head] @ k[:, group].T / 8, -numpy.inf)
        scores = numpy.exp(numpy.column_stack([scores, numpy.full(count, layer["sinks"][head])]))
        out[:, head] = (scores / scores.sum(1, keepdims=True))[:, :-1] @ heads["v"][:, group]
    return out.reshape(count, -1) @ layer["o"].T + layer["o_bias"]


def experts_sum(x, layer):
    out = numpy.zeros_like(x)
    for t, scores in enumerate(x @ layer["router"].T + layer["router_bias"]):
        chosen = numpy.argsort(-scores)[:4]
        shares = numpy.exp(scores[chosen] - scores[chosen].max())
        for expert, share in zip(chosen, shares / shares.sum()):
            h = layer["gate_up"][expert] @ x[t] + layer["gate_up_bias"][expert]
            gate, up = numpy.minimum(h[::2], 7), numpy.clip(h[1::2], -7, 7)
            h = gate / (1 + numpy.exp(-1.702 * gate)) * (up + 1)
            out[t] += share * (layer["down"][expert] @ h + layer["down_bias"][expert])
    return out


def logits_of(model, ids):
    x = model["embed"][ids]
    for n in range(LAYERS):
        x = x + attention(normed(x, model[n]["norm1"]), model[n], slides=n % 2 == 0)
        x = x + experts_sum(normed(x, model[n]["norm2"]), model[n])
    return normed(x, model["norm"]) @ model["head"].T


# adapters, and what they change by PEFT's definition


class Adapter:
    """Random factors, the tensors of their file, and their sums in float64."""

    def __init__(self, folder, rank=4, alpha=8, **fields):
        self.folder, self.rank, self.scale, self.tensors, self.model = folder, rank, alpha / rank, {}, read_model()
        self.config = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "task_type": "CAUSAL_LM", **fields}
        # In the tests with logits, the scores of the last chosen expert and of the next one differ by 0.003 or more.
        self.random = numpy.random.default_rng(14)

    def factor(self, name, *shape):
        values = self.random.normal(0, 0.1, shape).astype("<f4")
        self.tensors[PREFIX + name] = ("F32", shape, values.tobytes())
        return values.astype("f8")

    def add(self, module, weight):
        """Changes `weight` [out, in], and rounds it to BF16 as a merged model has it."""
        a = self.factor(module + ".lora_A.weight", self.rank, weight.shape[1])
        b = self.factor(module + ".lora_B.weight", weight.shape[0], self.rank)
        weight[:] = rounded_to_bf16(weight + self.scale * (b @ a))

    def add_dense(self):
        for n in range(LAYERS):
            for short, name in NAMES.items():
                self.add(f"model.layers.{n}.{name}", self.model[n][short])
        self.add("lm_head", self.model["head"])
        a = self.factor("model.embed_tokens.lora_embedding_A", self.rank, len(self.model["embed"]))
        b = self.factor("model.embed_tokens.lora_embedding_B", HIDDEN, self.rank)
        self.model["embed"] = rounded_to_bf16(self.model["embed"] + self.scale * (b @ a).T).astype("f8")

    def add_parameters(self):
        """target_parameters: the parameters are [E, in, out], and PEFT's sum is "o r e, e r i -> e i o"."""
        self.config["target_parameters"] = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
        for n in range(LAYERS):
            for short, module in (("gate_up", "experts.base_layer"), ("down", "experts")):
                weights = self.model[n][short]
                a = self.factor(f"model.layers.{n}.mlp.{module}.lora_A.weight", EXPERTS * self.rank, weights.shape[2])
                b = self.factor(f"model.layers.{n}.mlp.{module}.lora_B.weight", weights.shape[1], EXPERTS * self.rank)
                a, b = a.reshape(EXPERTS, self.rank, -1), b.reshape(len(b), self.rank, EXPERTS)
                delta = numpy.einsum("ore,eri->eio", b, a) * self.scale
                weights[:] = rounded_to_bf16(weights + delta.transpose(0, 2, 1))

    def add_modules(self):
        """unsloth's modules: each expert is a linear layer of its own."""
        for n in range(LAYERS):
            for expert in range(0, EXPERTS, 3):
                for short in ("gate_up", "down"):
                    self.add(f"model.layers.{n}.mlp.experts.{short}_projs.{expert}", self.model[n][short][expert])

    def write(self):
        self.folder.mkdir(exist_ok=True)
        write_safetensors(self.folder / "adapter_model.safetensors", self.tensors)
        (self.folder / "adapter_config.json").write_text(json.dumps(self.config))
        return self.folder

    def save_merged(self, folder):
        """Writes the merged model as transformers saves it, in BF16."""
        shutil.copytree(TINY, folder)

        def bf16(values):
            bits = values.astype("<f4").view("<u4")
            assert not (bits & 0xFFFF).any()
            return ("BF16", values.shape, (bits >> 16).astype("<u2").tobytes())

        tensors = read_safetensors(TINY)
        tensors["model.embed_tokens.weight"], tensors["lm_head.weight"] = bf16(self.model["embed"]), bf16(self.model["head"])
        for n in range(LAYERS):
            for short, name in NAMES.items():
                tensors[f"model.layers.{n}.{name}.weight"] = bf16(self.model[n][short])
            for short in ("gate_up", "down"):
                name = f"model.layers.{n}.mlp.experts.{short}_proj"
                del tensors[name + "_blocks"], tensors[name + "_scales"]
                tensors[name] = bf16(numpy.ascontiguousarray(self.model[n][short].transpose(0, 2, 1)))
        replace_tensors(folder, tensors)
        return folder


@pytest.fixture(scope="module")
def ids():
    return [int(number) for number in answer("tokenize", "tiny", stdin=TEXT.encode()).split()]


@pytest.fixture
def golden(tmp_path, ids):
    """Writes the logits of a model, for nibble eval --golden."""

    def write(model):
        logits = logits_of(model, ids).astype("<f4")
        file = tmp_path / "golden.safetensors"
        tensors = {"ids0": ("I32", [len(ids)], numpy.array(ids, "<i4").tobytes())}
        write_safetensors(file, tensors | {"logits0": ("F32", logits.shape, logits.tobytes())})
        return file

    return write


def differs(golden, *flags):
    """Returns the relative difference of the logits from those in the file."""
    done = nibble("eval", "tiny", "--golden", golden, "--json", *flags)
    assert done.returncode in (0, 1), done.stderr.decode()
    return json.loads(done.stdout)


def dense(adapter):
    adapter.add_dense()


def parameters(adapter):
    adapter.add_dense()
    adapter.add_parameters()


def modules(adapter):
    adapter.add_modules()


@pytest.mark.parametrize("kind", [dense, parameters, modules])
def test_the_logits_are_those_of_the_merged_matrices(tmp_path, golden, kind):
    adapter = Adapter(tmp_path / "adapter")
    kind(adapter)
    file, folder = golden(adapter.model), adapter.write()
    for backend, flags in (("reference", []), ("cpu", ["--experts-activations", "float"])):
        flags = ["--backend", backend, *flags]
        (prompt,) = differs(file, "--lora", folder, "--experts", "bf16", *flags)["prompts"]
        assert prompt["is_within"], (backend, prompt)
        (prompt,) = differs(file, *flags)["prompts"]
        assert not prompt["is_within"] and prompt["relative_l2"] > 0.05, (backend, prompt)
    (prompt,) = differs(file, "--lora", f"{folder}:0.9", "--experts", "bf16", "--backend", "reference")["prompts"]
    assert not prompt["is_within"]


def first_tokens(*arguments):
    """Returns the tokens of an answer and their log probabilities."""
    question = ["-p", QUESTION, "--temperature", 0, "--max-tokens", 8, "--json", "--logprobs", 3]
    return json.loads(answer("run", *arguments, *question))["logprobs"]


def test_a_checkpoint_that_was_merged_gives_the_same_answer(tmp_path):
    adapter = Adapter(tmp_path / "adapter")
    parameters(adapter)
    merged = adapter.save_merged(tmp_path / "merged")
    assert inspected(merged)["experts"] == "BF16 in the file"
    lora = first_tokens("tiny", "--lora", adapter.write(), "--experts", "bf16")
    expected = first_tokens(merged)
    assert [token["token"] for token in lora] == [token["token"] for token in expected]
    assert [token["logprob"] for token in lora] == pytest.approx([token["logprob"] for token in expected], abs=1e-2)
    assert lora[0]["logprob"] != first_tokens("tiny")[0]["logprob"]


def test_adapters_may_be_given_several_times_with_a_scale(tmp_path, golden):
    one = Adapter(tmp_path / "one")
    for n in range(LAYERS):
        name = f"model.layers.{n}.self_attn.v_proj"
        a = one.factor(name + ".lora_A.weight", one.rank, HIDDEN)
        b = one.factor(name + ".lora_B.weight", KV_HEADS * DIM, one.rank)
        one.model[n]["v"] = rounded_to_bf16(one.model[n]["v"] + 0.75 * one.scale * (b @ a)).astype("f8")
    file, folder = golden(one.model), one.write()
    flags = ["--backend", "reference", "--lora", f"{folder}:0.5", "--lora", f"{folder / 'adapter_model.safetensors'}:0.25"]
    (prompt,) = differs(file, *flags)["prompts"]
    assert prompt["is_within"]


# GGUF


def as_gguf(adapter, file):
    """Writes the same adapter as llama.cpp's converter does."""
    names = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "router": "ffn_gate_inp"}
    modules = {f"model.layers.{n}.{NAMES[short]}": f"blk.{n}.{name}" for n in range(LAYERS) for short, name in names.items()}
    modules |= {"lm_head": "output", "model.embed_tokens": "token_embd"}
    writer = gguf.GGUFWriter(file, "gpt-oss")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", adapter.config["lora_alpha"])
    for name, (_, shape, raw) in adapter.tensors.items():
        values = numpy.frombuffer(raw, "<f4").reshape(shape)
        module, factor = name.removeprefix(PREFIX).removesuffix(".weight").rsplit(".", 1)
        if factor == "lora_embedding_A":
            values = numpy.ascontiguousarray(values.T)
        writer.add_tensor(f"{modules[module]}.weight.lora_{factor[-1].lower()}", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_a_gguf_adapter_gives_the_bits_of_the_same_one_of_peft(tmp_path):
    adapter = Adapter(tmp_path / "adapter")
    adapter.add_dense()
    file = as_gguf(adapter, tmp_path / "adapter.gguf")
    assert first_tokens("tiny", "--lora", file) == first_tokens("tiny", "--lora", adapter.write())
    answer("convert", "tiny", tmp_path / "tiny.gguf", "--dense", "q8_0")
    assert first_tokens(tmp_path / "tiny.gguf", "--lora", file) != first_tokens(tmp_path / "tiny.gguf")
    assert "is a LoRA adapter, not a model. Give its model" in refusal("run", file, "-p", QUESTION)


def test_some_matrices_of_a_gguf_model_may_be_adapted(tmp_path, golden):
    answer("convert", "tiny", tmp_path / "tiny.gguf")  # BF16: the same numbers
    adapter = Adapter(tmp_path / "adapter")
    for n in range(LAYERS):
        for short in "qv":
            adapter.add(f"model.layers.{n}.{NAMES[short]}", adapter.model[n][short])
    file, folder = golden(adapter.model), adapter.write()
    done = nibble("eval", tmp_path / "tiny.gguf", "--golden", file, "--lora", folder, "--backend", "reference")
    assert done.returncode == 0, done.stderr.decode()
    answer("convert", "tiny", tmp_path / "q8_0.gguf", "--dense", "q8_0")  # q and v become BF16, k and o stay

    def distance(*flags):
        done = nibble("eval", tmp_path / "q8_0.gguf", "--golden", file, "--backend", "cpu", "--json", *flags)
        return json.loads(done.stdout)["prompts"][0]["relative_l2"]

    assert distance("--lora", folder) < 0.06 < 0.3 < distance()


# what is said, and what is refused


def test_the_adapter_is_named_and_the_model_keeps_its_name(tmp_path):
    adapter = Adapter(tmp_path / "adapter")
    parameters(adapter)
    folder = adapter.write()
    flags = ["--lora", f"{folder}:0.5", "--experts", "bf16"]
    line = f"{folder}: rank 4, scale 1: embedding 1, q 6, k 6, v 6, o 6, router 6, experts' gate_up 96, experts' down 96, lm_head 1"
    assert f"  adapter: {line}\n" in answer("inspect", "tiny", *flags)
    assert f"  adapter   {line}\n" in answer("serve", "tiny", *flags, "--check")
    report = inspected("tiny", *flags)
    assert report["adapters"] == [line]
    assert report["experts"] == "MXFP4 in the file, changed by an adapter, rounded to BF16"
    assert "adapters" not in inspected("tiny")
    done = nibble("run", "tiny", "-p", QUESTION, "--max-tokens", 1, *flags, "--log-level", "info")
    assert f"adapter merged: {line}" in done.stderr.decode()
    with serving(*flags) as server, urllib.request.urlopen(server.url + "/v1/models", timeout=30) as reply:
        assert [model["id"] for model in json.load(reply)["data"]] == ["tiny"]


def test_a_model_is_inspected_as_it_runs_with_the_adapter(tmp_path):
    adapter = Adapter(tmp_path / "adapter")
    for n in range(LAYERS):
        for short in "qkv":
            adapter.add(f"model.layers.{n}.{NAMES[short]}", adapter.model[n][short])
    answer("convert", "tiny", tmp_path / "tiny.gguf", "--dense", "q8_0")

    def kernels(*flags):
        rows = inspected(tmp_path / "tiny.gguf", "--backend", "cpu", "--kernels", *flags)["kernels"]
        return {row["operation"]: row["weights"] for row in rows}

    before, merged = kernels(), kernels("--lora", adapter.write())
    assert before["qkv"] == "Q8_0" and merged["qkv"] == "BF16"
    assert merged == before | {"qkv": "BF16"}
    assert kernels("--lora", adapter.folder, "--fp8-layers", "qkv")["qkv"] == "FP8"


def test_experts_need_a_format_that_keeps_what_the_adapter_changes(tmp_path):
    adapter = Adapter(tmp_path / "adapter")
    adapter.add_modules()
    message = refusal("run", "tiny", "-p", QUESTION, "--lora", adapter.write(), "--backend", "cpu")
    assert "an adapter changes the experts, which are MXFP4, so the cpu backend runs them only if" in message
    assert "--experts mxfp4 (" in message and "bf16 (" in message
    compare = ["eval", "tiny", "--text", ROOT / "README.md", "--compare", "--window", 64, "--limit", 4, "--backend", "cpu"]
    compare += ["--lora", adapter.folder, "--json", "--experts"]
    kl = {name: json.loads(answer(*compare, name))["mean_kl"] for name in ("q8_0", "fp8", "mxfp4")}
    assert 0 < kl["q8_0"] < kl["fp8"] < kl["mxfp4"]


def test_what_does_not_fit_or_is_not_applied_is_named(tmp_path):
    adapter = Adapter(tmp_path / "adapter", use_dora=True)
    adapter.add("lm_head", adapter.model["head"])
    run = ["run", "tiny", "-p", QUESTION, "--lora"]
    folder = adapter.write()
    assert "'use_dora' says that it is a DoRA adapter" in refusal(*run, folder)
    adapter.config["use_dora"] = False
    name = PREFIX + "lm_head.lora_B.weight"
    adapter.tensors[name] = ("F32", (4095, 4), bytes(4095 * 16))
    assert "A and B of \"lm_head\" are [4, 256] and [4095, 4]; expected [r, 256] and [4096, r]" in refusal(*run, adapter.write())
    del adapter.tensors[name]
    assert "'lora_B' of \"lm_head\" is missing" in refusal(*run, adapter.write())
    (folder / "adapter_config.json").unlink()
    assert "no adapter_config.json next to the tensors" in refusal(*run, folder)
    assert "no such adapter: looked for " in refusal(*run, tmp_path / "absent")
    assert "has random weights, to which no adapter belongs" in refusal("run", "synthetic:gpt-oss-20b", *run[2:], folder)
    assert "expected FILE:SCALE with a number" in refusal(*run, "x:nan")
