"""Tests models whose experts are not MXFP4: fine-tunes that transformers saved, and GGUF files of other types."""

import json
import subprocess
import sys

import gguf
import numpy
import pytest
from gguf import GGMLQuantizationType as Type

from test_cli import GOLDEN, QUESTION, ROOT, TINY, answer, nibble, refusal
from test_gguf import ANSWER, read_safetensors, rewritten, widened


def expanded(folder, *flags):
    """Writes the bundled model as transformers saves it without MXFP4."""
    subprocess.run([sys.executable, ROOT / "tools" / "expand_experts", TINY, folder, *map(str, flags)], check=True)
    return folder


def nudged(values):
    """Changes each weight by up to 2 % of its size, as a fine-tune does."""
    return values * (1 + 0.02 * numpy.random.default_rng(1).uniform(-1, 1, values.shape)).astype("<f4")


def inspected(*arguments):
    return json.loads(answer("inspect", *arguments, "--json"))


@pytest.fixture(scope="module")
def fine_tune(tmp_path_factory):
    return expanded(tmp_path_factory.mktemp("tune") / "model", "--nudge", 0.02)


@pytest.mark.parametrize("dtype, order", [("BF16", []), ("BF16", ["--plain"]), ("F16", []), ("F32", [])])
def test_expanded_experts_give_the_golden_logits(tmp_path, dtype, order):
    folder = expanded(tmp_path / "model", "--dtype", dtype, *order)
    assert inspected(folder)["experts"] == f"{dtype} in the file, exactly MXFP4"
    assert f"experts: {dtype} in the file, exactly MXFP4" in answer("inspect", folder)
    for flags in [["--backend", "reference"], ["--backend", "reference", "--experts", "bf16"], ["--backend", "cpu"]]:
        done = nibble("eval", folder, "--golden", GOLDEN / "golden.json", "--limit", 2, *flags, "--json")
        assert done.returncode == 0, done.stderr
    assert answer("run", folder, "-p", QUESTION, "--temperature", 0) == ANSWER


def test_a_fine_tune_runs_in_bf16_and_in_each_format_on_request(fine_tune):
    question = ["run", fine_tune, "-p", QUESTION, "--temperature", 0]
    assert inspected(fine_tune, "--backend", "cpu")["experts"] == "BF16 in the file"
    for flags in [[], ["--experts", "mxfp4"], ["--experts", "fp8"], ["--experts", "q8_0"], ["--mxfp4-layers", "moe"]]:
        assert answer(*question, "--backend", "cpu", *flags) == ANSWER, flags
    kernels = inspected(fine_tune, "--backend", "cpu", "--kernels")["kernels"]
    experts = [row["weights"] for row in kernels if row["operation"] == "experts up"]
    assert experts == ["BF16"]
    assert inspected(fine_tune, "--backend", "cpu", "--experts", "mxfp4")["experts"] == "BF16 in the file, rounded to MXFP4"


def test_what_a_conversion_costs_is_measured_against_the_file(fine_tune, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The Time Traveller smiled round at us. Then, still smiling faintly, he walked slowly out of the room. " * 4)
    compare = ["eval", fine_tune, "--text", text, "--compare", "--window", 64, "--backend", "cpu", "--json"]
    kl = {name: json.loads(answer(*compare, "--experts", name)) for name in ("q8_0", "fp8", "mxfp4")}
    assert kl["mxfp4"]["formats"]["experts"] == "MXFP4"
    assert 0 < kl["q8_0"]["mean_kl"] < kl["fp8"]["mean_kl"] < kl["mxfp4"]["mean_kl"] < 0.5
    assert "--compare needs a quantised setting: --experts" in refusal(*compare, "--experts", "bf16")


def test_experts_that_a_backend_does_not_run_are_compared_in_bf16(tiny_gguf, tmp_path):
    file = experts_in(tiny_gguf, tmp_path / "mixed.gguf", MIXED)
    text = tmp_path / "text.txt"
    text.write_text("The thing the Time Traveller held in his hand was a glittering metallic framework. " * 4)
    measured = ["eval", file, "--text", text, "--window", 64, "--backend", "cpu", "--json"]
    compared = json.loads(answer(*measured, "--compare", "--experts", "mxfp4"))
    assert 0.001 < compared["mean_kl"] < 0.5
    in_bf16 = json.loads(answer(*measured, "--experts", "bf16"))["perplexity"]
    assert compared["unquantised_perplexity"] == pytest.approx(in_bf16, rel=1e-6)
    assert "the experts are Q4_1 and MXFP4 and not exactly MXFP4" in refusal(*measured)
    assert "--compare needs a quantised setting" in refusal(*measured, "--compare", "--experts", "bf16")


@pytest.mark.parametrize("kind", [Type.Q4_0, Type.Q8_0], ids=["q4_0", "q8_0"])
def test_bf16_is_compared_with_the_blocks_of_the_file_where_the_reference_reads_them(tiny_gguf, tmp_path, kind):
    file = experts_in(tiny_gguf, tmp_path / "x.gguf", all_of(kind))
    text = tmp_path / "text.txt"
    text.write_text("The thing the Time Traveller held in his hand was a glittering metallic framework. ")
    compare = ["eval", file, "--text", text, "--window", 32, "--backend", "reference", "--compare", "--json"]
    assert 0 < json.loads(answer(*compare, "--experts", "bf16"))["mean_kl"] < 0.001


def test_experts_that_do_not_fit_are_refused_in_one_line(fine_tune, tmp_path):
    file = expanded(tmp_path / "f16", "--dtype", "F16", "--nudge", 0.02)
    message = refusal("run", file, "-p", QUESTION, "--backend", "cpu")
    assert "the experts are F16 and not exactly MXFP4, so the cpu backend runs them only if they are converted" in message
    assert "--experts mxfp4 (" in message and "bf16 (" in message
    assert "one of mxfp4, fp8, q8_0, bf16" in refusal("run", "tiny", "-p", QUESTION, "--experts", "int4")
    assert "both name the experts" in refusal("run", "tiny", "-p", QUESTION, "--experts", "fp8", "--mxfp4-layers", "moe")
    assert "round them with --experts mxfp4" in refusal("convert", fine_tune, tmp_path / "x.gguf")
    assert "nibble convert writes experts in MXFP4" in refusal("convert", "tiny", tmp_path / "x.gguf", "--experts", "bf16")


def test_a_fine_tune_is_written_in_mxfp4(fine_tune, tmp_path):
    answer("convert", fine_tune, tmp_path / "x.gguf", "--experts", "mxfp4")
    assert answer("run", tmp_path / "x.gguf", "-p", QUESTION, "--temperature", 0) == ANSWER
    answer("convert", expanded(tmp_path / "exact"), tmp_path / "y.gguf")
    assert inspected(tmp_path / "y.gguf")["experts"] == "MXFP4 in the file"


# GGUF


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory):
    file = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    answer("convert", "tiny", file)
    return file


def experts_in(file, out, types):
    """Retypes the experts' tensors with the official package, and nudges them first. `types`: by part of the name."""
    retyped = {}
    for tensor in gguf.GGUFReader(file).tensors:
        kind = next((kind for part, kind in types.items() if f"ffn_{part}_exps.weight" in tensor.name), None)
        if kind is not None:
            values = nudged(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
            retyped[tensor.name] = (kind, gguf.quants.quantize(values, kind))
    return rewritten(file, out, retyped)


def as_f32(file, out):
    """Writes the same experts as the official package decodes them."""
    retyped = {
        tensor.name: (Type.F32, gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        for tensor in gguf.GGUFReader(file).tensors
        if "_exps.weight" in tensor.name
    }
    return rewritten(file, out, retyped)


def all_of(kind):
    return {"gate": kind, "up": kind, "down": kind}


def test_files_whose_price_is_measured_hold_the_model_in_the_types_that_they_name(tmp_path):
    tool = [sys.executable, ROOT / "tools" / "experts_price", "--only-write", tmp_path]
    subprocess.run([*tool, "Q4_0", "IQ4_NL", "NVFP4"], check=True)
    for file, kind in (("BF16", "BF16"), ("Q4_0.gguf", "Q4_0"), ("IQ4_NL.gguf", "IQ4_NL"), ("NVFP4", "NVFP4")):
        assert inspected(tmp_path / file, "--backend", "reference")["experts"].startswith(kind + " in the file"), file
        assert answer("run", tmp_path / file, "-p", QUESTION, "--temperature", 0, "--experts", "bf16") == ANSWER
    up = widened(read_safetensors(tmp_path / "BF16")["model.layers.2.mlp.experts.gate_up_proj"])[:, 1::2]
    for file in ("Q4_0.gguf", "IQ4_NL.gguf"):
        tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / file).tensors}
        found = tensors["blk.2.ffn_up_exps.weight"]
        change = gguf.quants.dequantize(found.data, found.tensor_type) - up
        assert 0.01 < numpy.linalg.norm(change) / numpy.linalg.norm(up) < 0.12, file
    done = subprocess.run([*tool, "Q4"], capture_output=True, text=True)
    assert done.returncode == 1 and "no source is named Q4; expected BF16, Q8_0" in done.stderr


MIXED = {"gate": Type.Q4_1, "up": Type.MXFP4, "down": Type.Q8_0}


@pytest.mark.parametrize(
    "types, name",
    [
        (all_of(Type.Q8_0), "Q8_0 in the file"),
        (all_of(Type.BF16), "BF16 in the file"),
        (all_of(Type.F16), "F16 in the file"),
        (all_of(Type.Q5_0), "Q5_0 in the file"),
        (all_of(Type.Q4_0), "Q4_0 in the file"),
        (MIXED, "Q4_1 and MXFP4 in the file, exactly F32; Q8_0 in the file"),
    ],
    ids=["q8_0", "bf16", "f16", "q5_0", "q4_0", "mixed"],
)
def test_experts_of_a_gguf_file_are_the_numbers_that_the_official_package_decodes(tiny_gguf, tmp_path, types, name):
    file = experts_in(tiny_gguf, tmp_path / "x.gguf", types)
    text = tmp_path / "text.txt"
    text.write_text("The thing the Time Traveller held in his hand was a glittering metallic framework.")
    perplexity = ["--text", text, "--window", 32, "--backend", "reference", "--json"]
    of_file = json.loads(answer("eval", file, *perplexity))["perplexity"]
    of_values = json.loads(answer("eval", as_f32(file, tmp_path / "f32.gguf"), *perplexity))["perplexity"]
    assert of_file == of_values
    assert inspected(file, "--backend", "reference")["experts"] == name


def test_q8_0_experts_run_as_they_are_on_a_cpu_and_others_on_request(tiny_gguf, tmp_path):
    question = ["-p", QUESTION, "--temperature", 0, "--backend", "cpu"]
    q8_0 = experts_in(tiny_gguf, tmp_path / "q8_0.gguf", all_of(Type.Q8_0))
    assert answer("run", q8_0, *question) == ANSWER
    kernels = inspected(q8_0, "--backend", "cpu", "--kernels")["kernels"]
    experts = {(row["weights"], row["activations"]) for row in kernels if row["operation"].startswith("experts")}
    assert experts == {("Q8_0", "INT8")}
    assert "the experts are Q8_0" in refusal("run", q8_0, *question, "--experts-activations", "float")
    mixed = experts_in(tiny_gguf, tmp_path / "mixed.gguf", MIXED)
    assert "the experts are Q4_1 and MXFP4 and not exactly MXFP4" in refusal("run", mixed, *question)
    for name in ("mxfp4", "fp8", "q8_0", "bf16"):
        assert answer("run", mixed, *question, "--experts", name) == ANSWER, name
