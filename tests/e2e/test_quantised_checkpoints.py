"""Tests checkpoints that other programs quantised: NVFP4, MLX, AWQ, GPTQ, INT4 and FP8 experts, converted at load."""

import json
import re

import gguf
import numpy
import pytest
from gguf import GGMLQuantizationType as Type

import forward64
import quantised_checkpoints as other
from test_cli import GOLDEN, QUESTION, TINY, answer, nibble, refusal
from test_experts import inspected
from test_fine_tunes import change_config, replace_tensors, write_safetensors
from test_gguf import ANSWER, read_safetensors, rewritten, rounded_to_bf16

VALUES = other.values_of()

# Name, writer, type in the file.
FORMATS = {
    "nvfp4_compressed_tensors": (other.nvfp4_of_compressed_tensors, "NVFP4"),
    "nvfp4_modelopt": (other.nvfp4_of_modelopt, "NVFP4"),
    "mlx_4": (lambda values: other.mlx(values, 4, 64), "MLX 4-bit"),
    "mlx_8": (lambda values: other.mlx(values, 8, 32, scale_type="F16"), "MLX 8-bit"),
    "mlx_mxfp4": (lambda values: other.mlx(values, 4, 32, "mxfp4", dense_bits=8), "MXFP4"),
    "awq": (other.awq, "AWQ 4-bit"),
    "gptq": (other.gptq, "GPTQ 4-bit"),
    "gptq_v2_act_order": (lambda values: other.gptq(values, 0, True), "GPTQ 4-bit"),
    "int4": (lambda values: other.int4(values, True), "INT4"),
    "int4_zero_points": (lambda values: other.int4(values, False), "INT4"),
    "fp8_rows": (lambda values: other.fp8(values, True), "FP8"),
    "fp8_tensor": (lambda values: other.fp8(values, False), "FP8"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Writes a checkpoint of a format once: (folder, decoded values)."""
    written = {}

    def write(name):
        if name not in written:
            tensors, fields, decoded = FORMATS[name][0](VALUES)
            folder = other.write_folder(tmp_path_factory.mktemp(name) / "model", tensors, fields)
            written[name] = (folder, decoded)
        return written[name]

    return write


def prompt_ids():
    """Tokens of the golden prompts, enough for sliding windows and many experts."""
    return numpy.frombuffer(read_safetensors(GOLDEN)["chat_tool_call_medium.ids"][2], "<i4")[:150]


def golden_file(file, decoded):
    ids = prompt_ids()
    logits = forward64.logits(decoded, other.config_of(), ids).astype("<f4")
    write_safetensors(file, {"ids0": ("I32", [len(ids)], ids.tobytes()), "logits0": ("F32", logits.shape, logits.tobytes())})
    return file


@pytest.mark.parametrize("name", FORMATS)
def test_all_logits_are_those_of_the_decoded_values_in_float64(made, tmp_path, name):
    folder, decoded = made(name)
    golden = golden_file(tmp_path / "golden.safetensors", decoded)
    done = nibble("eval", folder, "--golden", golden, "--backend", "reference", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert 0 < max(prompt["relative_l2"] for prompt in report["prompts"]) < 1e-4, report


def test_the_float64_model_agrees_with_the_golden_logits():
    """So that the test above compares with something right: transformers computed the golden logits."""
    tensors = read_safetensors(GOLDEN)
    ids = numpy.frombuffer(tensors["chat_tool_call_medium.ids"][2], "<i4")
    expected = numpy.frombuffer(tensors["chat_tool_call_medium.last_logits"][2], "<f4")
    found = forward64.logits(VALUES, other.config_of(), ids)[-1]
    assert numpy.linalg.norm(found - expected) < 2e-6 * numpy.linalg.norm(expected)


@pytest.mark.parametrize("name", FORMATS)
def test_the_cpu_runs_them_in_each_format_of_experts_on_request(made, name):
    folder, _ = made(name)
    question = ["run", folder, "-p", QUESTION, "--temperature", 0, "--backend", "cpu"]
    kind = FORMATS[name][1]
    if kind != "MXFP4":
        message = refusal(*question)
        assert f"the experts are {kind} and not exactly MXFP4" in message and "--experts mxfp4 (" in message
        assert inspected(folder, "--backend", "cpu", "--experts", "mxfp4")["experts"] == f"{kind} in the file, rounded to MXFP4"
    for experts in ("bf16", "q8_0", "mxfp4"):
        assert answer(*question, "--experts", experts) == ANSWER, experts
    assert answer(*question, "--experts", "bf16", "--fp8-layers", "all") == ANSWER


def test_mxfp4_experts_of_mlx_give_the_released_logits_bit_for_bit(tmp_path):
    """With dense layers as released: MLX leaves layers out that it is told to leave out."""
    tensors, fields, decoded = other.mlx(VALUES, 4, 32, "mxfp4")
    dense = {name: kept for name, kept in read_safetensors(TINY).items() if ".experts." not in name}
    experts = {name: kept for name, kept in tensors.items() if ".experts." in name}
    for name in filter(other.is_experts, VALUES):
        assert numpy.array_equal(decoded[name], VALUES[name]), name
    folder = other.write_folder(tmp_path / "model", dense | experts, fields)
    text = tmp_path / "text.txt"
    text.write_text("The thing the Time Traveller held in his hand was a glittering metallic framework.")
    for backend in ("cpu", "reference"):
        measured = ["--text", text, "--window", 32, "--backend", backend, "--json"]
        of_mlx, released = (json.loads(answer("eval", model, *measured))["perplexity"] for model in (folder, TINY))
        assert of_mlx == released
    assert inspected(folder, "--backend", "cpu")["experts"] == "MXFP4 in the file"
    assert answer("run", folder, "-p", QUESTION, "--temperature", 0) == ANSWER


def test_a_conversion_writes_the_rounded_model(made, tmp_path):
    folder, _ = made("mlx_8")
    answer("convert", folder, tmp_path / "x.gguf", "--experts", "mxfp4")
    assert answer("run", tmp_path / "x.gguf", "-p", QUESTION, "--temperature", 0) == ANSWER
    assert "round them with --experts mxfp4" in refusal("convert", folder, tmp_path / "y.gguf")
    answer("convert", made("mlx_mxfp4")[0], tmp_path / "z.gguf")
    assert inspected(tmp_path / "z.gguf")["experts"] == "MXFP4 in the file"


def test_each_conversion_is_a_line_with_what_it_does(made):
    folder, _ = made("awq")
    done = nibble("run", folder, "-p", QUESTION, "--max-tokens", 1, "--experts", "mxfp4", "--log-level", "info")
    told = done.stderr.decode()
    assert done.returncode == 0, told
    assert "qkv: 18 tensors of AWQ 4-bit to BF16, rounded to nearest" in told
    assert "experts: AWQ 4-bit to MXFP4" in told


def test_the_line_says_by_how_much_the_experts_change(made):
    folder, decoded = made("awq")
    squares = errors = 0
    for name in filter(other.is_experts, decoded):
        rounded = other.packed_by_mlx(decoded[name], 4, 32, "mxfp4", "BF16")[1].astype("<f8")
        squares += (decoded[name].astype("<f8") ** 2).sum()
        errors += ((rounded - decoded[name]) ** 2).sum()
    done = nibble("run", folder, "-p", QUESTION, "--max-tokens", 1, "--experts", "mxfp4", "--log-level", "info")
    told = re.search(rb"experts: AWQ 4-bit to MXFP4, .*; the weights change by ([0-9.]+) % \(root mean square\)", done.stderr)
    assert float(told[1]) == pytest.approx(100 * (errors / squares) ** 0.5, rel=0.02), done.stderr
    exact = nibble("run", made("mlx_mxfp4")[0], "-p", QUESTION, "--max-tokens", 1, "--log-level", "info")
    assert b"experts: MXFP4 to MXFP4" in exact.stderr and b"the weights change" not in exact.stderr


# GGUF


def nvfp4_blocks(values):
    """ggml's NVFP4 and the factor: 4 scales and 32 bytes for 64 elements; the high nibbles are elements 8 to 15 of a scale."""
    factor = other.factor_of(values)
    codes, scales = other.pack_nvfp4(values, factor)
    pairs = numpy.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1, 16)
    halves = (pairs[..., :8] | pairs[..., 8:] << 4).reshape(*codes.shape[:-1], -1, 32)
    blocks = numpy.concatenate([scales.reshape(*scales.shape[:-1], -1, 4), halves], -1)
    decoded = other.unpack_nvfp4(codes, scales, factor).astype("<f4")
    return blocks.reshape(*codes.shape[:-1], -1), factor, decoded


@pytest.mark.parametrize("has_one_factor", [True, False])
def test_nvfp4_of_a_gguf_file_has_factors_of_its_own(tmp_path, has_one_factor):
    answer("convert", "tiny", tmp_path / "tiny.gguf")
    decoded, retyped, factors = dict(VALUES), {}, {}
    parts = {"ffn_gate_exps": ("mlp.experts.gate_up_proj", 0, 2), "ffn_up_exps": ("mlp.experts.gate_up_proj", 1, 2)}
    parts |= {"ffn_down_exps": ("mlp.experts.down_proj", 0, 1), "attn_output": ("self_attn.o_proj.weight", 0, 1)}
    for layer in range(6):
        for part, (name, first, step) in parts.items():
            full = f"model.layers.{layer}.{name}"
            decoded[full] = decoded[full].copy()
            rows = (slice(None), slice(first, None, step)) if ".experts." in name else (slice(None),)
            values = VALUES[full][rows]
            if ".experts." in name and not has_one_factor:
                made = [nvfp4_blocks(matrix) for matrix in values]
                blocks, factor, numbers = (numpy.stack([each[i] for each in made]) for i in range(3))
            else:
                blocks, factor, numbers = nvfp4_blocks(values)
            decoded[full][rows] = numbers if ".experts." in name else rounded_to_bf16(numbers)
            retyped[f"blk.{layer}.{part}.weight"] = (Type.NVFP4, blocks)
            factors[f"blk.{layer}.{part}.scale"] = numpy.atleast_1d(factor).astype("<f4")
    factors["blk.0.attn_output.input_scale"] = numpy.array([0.5], "<f4")
    file = rewritten(tmp_path / "tiny.gguf", tmp_path / "nvfp4.gguf", retyped, more=factors)
    golden = golden_file(tmp_path / "golden.safetensors", decoded)
    done = nibble("eval", file, "--golden", golden, "--backend", "reference", "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    assert answer("run", file, "-p", QUESTION, "--temperature", 0, "--experts", "mxfp4", "--backend", "cpu") == ANSWER
    wrong = rewritten(tmp_path / "tiny.gguf", tmp_path / "w.gguf", retyped, more=factors | {"blk.0.ffn_up_exps.scale": numpy.zeros(16, "<f4")})
    assert "'blk.0.ffn_up_exps.scale' has the value 0; expected positive" in refusal("run", wrong, "-p", QUESTION)
    stray = rewritten(tmp_path / "tiny.gguf", tmp_path / "s.gguf", more={"blk.0.attn_output.scale": numpy.ones(1, "<f4")})
    assert "unexpected tensor 'blk.0.attn_output.scale'" in refusal("run", stray, "-p", QUESTION)


# F32


def test_dense_layers_of_f32_run_everywhere(tmp_path):
    tensors = read_safetensors(TINY)
    for name, (dtype, shape, _) in list(tensors.items()):
        if dtype == "BF16":
            tensors[name] = ("F32", shape, VALUES[name].tobytes())
    folder = other.write_folder(tmp_path / "exact", tensors, {})
    question = ["-p", QUESTION, "--temperature", 0, "--log-level", "info"]
    for backend in ("cpu", "reference"):
        done = nibble("run", folder, *question, "--backend", backend)
        assert done.returncode == 0 and done.stdout.decode() == ANSWER, done.stderr
        assert (b"qkv: 18 tensors of F32 to BF16, exact" in done.stderr) == (backend == "cpu")
    name = "model.layers.0.self_attn.q_proj.weight"
    tensors[name] = ("F32", tensors[name][1], (VALUES[name] * numpy.float32(1.001)).tobytes())
    done = nibble("run", other.write_folder(tmp_path / "tuned", tensors, {}), *question, "--backend", "cpu")
    assert b"qkv: 18 tensors of F32 to BF16, rounded to nearest" in done.stderr


# what is refused


def changed(made, name, tmp_path, change):
    folder, _ = made(name)
    tensors = read_safetensors(folder)
    fields = json.loads((folder / "config.json").read_text())
    change(tensors)
    return other.write_folder(tmp_path / "changed", tensors, fields)


Q = "model.layers.0.self_attn.q_proj."


@pytest.mark.parametrize(
    "name, part, replacement, message",
    [
        ("gptq", "g_idx", ("I32", [256], numpy.full(256, 8, "<i4").tobytes()), "g_idx' is 8; expected a group below 8"),
        ("gptq", "g_idx", ("I32", [256], numpy.full(256, -1, "<i4").tobytes()), "g_idx' is -1; expected a group below 8"),
        ("awq", "qzeros", None, f"tensor '{Q}qzeros' is missing"),
        ("awq", "scales", ("F16", [7, 512], bytes(7 * 1024)), "expected scales of equal groups of 256 columns"),
        ("awq", "qweight", ("I32", [3], bytes(12)), "4-bit weights of a GPTQ or AWQ checkpoint for a matrix [512, 256]"),
        ("mlx_4", "weight", ("U32", [512, 24], bytes(512 * 96)), "MLX's 4 and 8 bits of a matrix [512, 256] take"),
        ("mlx_4", "biases", None, f"tensor '{Q}biases' is missing"),
        ("mlx_8", "scales", ("U8", [512, 8], bytes(512 * 8)), "U8 scales belong to MLX's mode mxfp4"),
        ("nvfp4_modelopt", "weight_scale_2", ("F32", [], bytes(4)), f"value 0 of tensor '{Q}weight_scale_2' is 0; expected a positive number"),
        ("nvfp4_compressed_tensors", "weight_scale", None, f"tensor '{Q}weight_scale' is missing"),
        ("nvfp4_compressed_tensors", "weight_scale", ("U8", [512, 16], bytes(512 * 16)), "is U8 [512, 16]; expected F8_E4M3"),
        ("int4", "weight_g_idx", ("I32", [256], bytes(1024)), "groups of adjacent columns only"),
    ],
)
def test_tensors_that_do_not_fit_are_named(made, tmp_path, name, part, replacement, message):
    def change(tensors):
        tensors.pop(Q + part, None)
        if replacement:
            tensors[Q + part] = replacement

    text = refusal("run", changed(made, name, tmp_path, change), "-p", QUESTION)
    assert message in text


# Bits of an infinity and of a NaN. E4M3 has no infinity.
NOT_FINITE = {"F16": ("<u2", 0x7C00, 0xFE00), "BF16": ("<u2", 0xFF80, 0x7FC0), "F32": ("<u4", 0x7F800000, 0x7FC00000), "F8_E4M3": ("u1", 0x7F, 0xFF)}


@pytest.mark.parametrize(
    "name, part",
    [("mlx_4", "scales"), ("mlx_8", "biases"), ("awq", "scales"), ("gptq", "scales"), ("int4", "weight_scale"), ("nvfp4_modelopt", "weight_scale"), ("nvfp4_compressed_tensors", "weight_scale")],
)
def test_a_scale_that_is_not_finite_is_named(made, tmp_path, name, part):
    for which in (0, 1):

        def change(tensors):
            dtype, shape, data = tensors[Q + part]
            kind, *bits = NOT_FINITE[dtype]
            scales = numpy.frombuffer(data, kind).copy()
            scales[-1] = bits[which]
            tensors[Q + part] = (dtype, shape, scales.tobytes())
            change.last = scales.size - 1

        text = refusal("run", changed(made, name, tmp_path / str(which), change), "-p", QUESTION)
        assert re.search(rf"value {change.last} of tensor '{re.escape(Q + part)}' is -?(inf|nan); expected a finite number", text), text


@pytest.mark.parametrize(
    "name, fields, message",
    [
        ("mlx_4", {"quantization": {"group_size": 64, "bits": 3}}, "this is an MLX checkpoint with 3-bit groups of 64"),
        ("mlx_4", {"quantization": {"group_size": 64, "bits": 4, "lm_head": {"group_size": 64, "bits": 6}}}, "6-bit groups of 64"),
        ("mlx_4", {"quantization": {"group_size": 32, "bits": 8, "mode": "mxfp8"}}, "8-bit groups of 32 (mxfp8)"),
        ("gptq", {"quantization_config": {"quant_method": "gptq", "bits": 8}}, "this is a GPTQ checkpoint with 8-bit weights"),
        ("gptq", {"quantization_config": {"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}}, '"marlin"'),
        ("gptq", {"quantization_config": None}, "config.json has no quantization_config of GPTQ"),
        ("awq", {"quantization_config": {"quant_method": "awq", "bits": 4, "version": "gemv"}}, '"gemv"'),
        ("nvfp4_modelopt", {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"}}, '"NVFP4_AWQ"'),
    ],
)
def test_other_groups_and_layouts_stay_refused_by_name(made, tmp_path, name, fields, message):
    folder = changed(made, name, tmp_path, lambda tensors: None)
    change_config(folder, lambda config: config.update(fields))
    if fields == {"quantization_config": None}:
        change_config(folder, lambda config: config.pop("quantization_config"))
    assert message in refusal("run", folder, "-p", QUESTION)


@pytest.mark.parametrize("name", FORMATS)
def test_no_mutant_of_a_header_or_of_its_tensors_crashes(made, tmp_path, name):
    """200 random mutants: each loads, or is refused in one line."""
    folder, _ = made(name)
    random = numpy.random.default_rng(7)
    file = folder / "model.safetensors"
    original = file.read_bytes()
    header_end = 8 + int.from_bytes(original[:8], "little")
    target = other.write_folder(tmp_path / "mutant", read_safetensors(folder), json.loads((folder / "config.json").read_text()))
    try:
        for _ in range(200):
            mutant = bytearray(original)
            for _ in range(random.integers(1, 4)):
                at = random.integers(8, header_end) if random.random() < 0.7 else random.integers(header_end, len(mutant))
                mutant[at] = random.integers(256) if random.random() < 0.5 else ord(random.choice(list("0123456789[],")))
            (target / "model.safetensors").write_bytes(mutant)
            done = nibble("inspect", target, "--backend", "reference", "--json")
            assert done.returncode in (0, 2), (done.returncode, done.stderr[-500:])
            assert done.returncode == 0 or done.stderr.count(b"\n") == 1, done.stderr
    finally:
        assert file.read_bytes() == original
