"""Tests GGUF files: ggml's own Python package reads what nibble writes, and writes what nibble reads."""

import json

import gguf
import numpy
import pytest
from gguf import GGMLQuantizationType as Type

from test_cli import GOLDEN, QUESTION, ROOT, TINY, answer, nibble, refusal

ANSWER = "17 + 25 = 42.\n"


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory):
    file = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    answer("convert", "tiny", file)
    return file


def read_safetensors(folder):
    """Returns the raw bytes of every tensor by name. Uses only the file format, no package."""
    tensors = {}
    for file in folder.glob("*.safetensors"):
        raw = file.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        for name, entry in json.loads(raw[8 : 8 + length]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = (entry["dtype"], entry["shape"], raw[8 + length + begin : 8 + length + end])
    return tensors


def widened(tensor):
    dtype, shape, raw = tensor
    assert dtype == "BF16"
    return (numpy.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)


def rounded_to_bf16(values):
    bits = values.astype("<f4").view("<u4").astype("<u8")
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u4") << 16).view("<f4")


def rewritten(file, out, retyped={}, left_out=(), keys={}, more={}):
    """Writes the same model with the official package; `retyped` tensors have other types and data, and `more` are new."""
    reader = gguf.GGUFReader(file)
    writer = gguf.GGUFWriter(out, "gpt-oss")
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture" or key in keys:
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), kind, sub)
    for key, (value, kind) in keys.items():
        writer.add_key_value(key, value, kind)
    for tensor in reader.tensors:
        if tensor.name in left_out:
            continue
        kind, data = retyped.get(tensor.name, (tensor.tensor_type, tensor.data))
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    for name, data in more.items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


# what nibble writes


def test_the_official_package_reads_what_nibble_writes(tiny_gguf):
    reader = gguf.GGUFReader(tiny_gguf)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    checkpoint = read_safetensors(TINY)
    assert reader.fields["general.architecture"].contents() == "gpt-oss"
    assert reader.fields["gpt-oss.expert_count"].contents() == 16
    assert len(reader.fields["tokenizer.ggml.tokens"].contents()) == 4096
    assert reader.fields["tokenizer.ggml.tokens"].contents()[4072] == "<|start|>"
    embedding = tensors["token_embd.weight"]
    assert embedding.tensor_type == Type.BF16 and list(embedding.shape) == [256, 4096]
    assert embedding.data.tobytes() == checkpoint["model.embed_tokens.weight"][2]
    norm = tensors["blk.3.attn_norm.weight"]
    assert norm.tensor_type == Type.F32
    assert numpy.array_equal(norm.data, widened(checkpoint["model.layers.3.input_layernorm.weight"]))


def test_experts_are_the_same_numbers(tiny_gguf):
    """Decoded by the official package from GGUF's blocks, and here from the checkpoint's codes and scales."""
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(tiny_gguf).tensors}
    checkpoint = read_safetensors(TINY)
    e2m1 = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], "<f4")
    prefix = "model.layers.2.mlp.experts."
    for name, parts in {"gate_up_proj": ["ffn_gate_exps", "ffn_up_exps"], "down_proj": ["ffn_down_exps"]}.items():
        _, shape, raw = checkpoint[f"{prefix}{name}_blocks"]
        codes = numpy.frombuffer(raw, "u1").reshape(shape)
        scales = numpy.frombuffer(checkpoint[f"{prefix}{name}_scales"][2], "u1").reshape(shape[:3])
        pairs = numpy.stack([codes & 15, codes >> 4], axis=-1).reshape(*shape[:3], 32)
        values = e2m1[pairs] * numpy.exp2(scales.astype("<f4") - 127)[..., None]
        values = values.reshape(shape[0], shape[1], -1)
        for index, part in enumerate(parts):
            tensor = tensors[f"blk.2.{part}.weight"]
            assert tensor.tensor_type == Type.MXFP4
            decoded = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape[0], -1, values.shape[2])
            assert numpy.array_equal(decoded, values[:, index :: len(parts)])


def test_quantised_matrices_are_those_of_the_official_package(tmp_path):
    checkpoint = read_safetensors(TINY)
    head = widened(checkpoint["lm_head.weight"])
    for dense, kind in {"q8_0": Type.Q8_0, "mxfp4": Type.MXFP4}.items():
        file = tmp_path / f"{dense}.gguf"
        answer("convert", "tiny", file, "--dense", dense)
        tensor = next(tensor for tensor in gguf.GGUFReader(file).tensors if tensor.name == "output.weight")
        assert tensor.tensor_type == kind
        assert numpy.array_equal(tensor.data, gguf.quants.quantize(head, kind))
        assert answer("run", file, "-p", QUESTION, "--temperature", 0) == ANSWER


def test_there_and_back_is_the_same_to_the_byte(tiny_gguf, tmp_path):
    answer("convert", tiny_gguf, tmp_path / "back")
    assert read_safetensors(tmp_path / "back") == read_safetensors(TINY)
    assert (tmp_path / "back/chat_template.jinja").read_bytes() == (TINY / "chat_template.jinja").read_bytes()
    answer("convert", tmp_path / "back", tmp_path / "again.gguf")
    assert (tmp_path / "again.gguf").read_bytes() == tiny_gguf.read_bytes()


def test_synthetic_weights_are_the_same_in_either_file(tmp_path):
    config = f"synthetic:{TINY / 'config.json'}"
    answer("convert", config, tmp_path / "folder")
    answer("convert", config, tmp_path / "model.gguf")
    answer("convert", tmp_path / "model.gguf", tmp_path / "back")
    assert read_safetensors(tmp_path / "back") == read_safetensors(tmp_path / "folder")
    assert "--tokenizer" in nibble("run", tmp_path / "model.gguf", "-p", "x").stderr.decode().splitlines()[-1]
    run = ["run", tmp_path / "model.gguf", "-p", "x", "--tokenizer", "bytes", "--raw", "--max-tokens", 4]
    assert nibble(*run).returncode == 0


# what nibble reads


def test_logits_have_the_same_bits_from_either_file(tiny_gguf):
    reports = []
    for model in ["tiny", tiny_gguf]:
        report = json.loads(answer("eval", model, "--golden", GOLDEN / "golden.json", "--limit", 7, "--json"))  # the 8th has 1,000 tokens
        of_the_run = {"date", "command_line", "machine", "model"}
        reports.append({key: value for key, value in report.items() if key not in of_the_run})
    assert reports[0] == reports[1]
    question = ["-p", QUESTION, "--temperature", 0, "--json", "--logprobs", 5]
    runs = [json.loads(answer("run", model, *question)) for model in ["tiny", tiny_gguf]]
    for key in ["answer", "reasoning", "tokens", "logprobs"]:
        assert runs[0][key] == runs[1][key]


def test_text_has_the_same_tokens_from_either_file(tiny_gguf):
    text = (GOLDEN / "eval" / "prose.txt").read_bytes()[:20_000] + "<|start|>Grüße 12345".encode()
    for flags in [[], ["--special"]]:
        assert answer("tokenize", tiny_gguf, *flags, stdin=text) == answer("tokenize", "tiny", *flags, stdin=text)


def test_a_file_of_the_official_writer_answers(tiny_gguf, tmp_path):
    assert answer("run", rewritten(tiny_gguf, tmp_path / "x.gguf"), "-p", QUESTION, "--temperature", 0) == ANSWER


def random_blocks(kind, rows, cols):
    """Returns random blocks. Any bytes are valid codes; half-precision scales are made finite and of the size that
    weights have."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    generator = numpy.random.default_rng(int(kind))
    blocks = generator.integers(0, 256, (rows * cols // elements, size), dtype="u1")
    halves = {Type.Q4_1: [0, 2], Type.Q5_1: [0, 2], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208]}
    halves |= {Type.Q2_K: [80, 82], Type.Q3_K: [108]}
    if kind == Type.NVFP4:
        pass
    elif kind == Type.MXFP4:
        blocks[:, 0] = generator.integers(115, 125, len(blocks))
    else:
        for at in halves.get(kind, [0]):
            scales = generator.normal(0, 0.01, len(blocks)).astype("<f2")
            blocks[:, at : at + 2] = scales.view("u1").reshape(-1, 2)
    return blocks.reshape(rows, -1)


BLOCK_TYPES = [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.MXFP4]
BLOCK_TYPES += [Type.Q2_K, Type.Q3_K, Type.IQ2_XXS, Type.IQ2_XS, Type.IQ2_S, Type.IQ3_XXS, Type.IQ3_S]
BLOCK_TYPES += [Type.IQ4_NL, Type.IQ4_XS, Type.NVFP4]


@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.name)
def test_blocks_have_the_values_of_the_official_package(tiny_gguf, tmp_path, kind):
    data = random_blocks(kind, 256, 512)  # any bytes, not only those that a quantiser writes
    file = rewritten(tiny_gguf, tmp_path / "x.gguf", {"blk.1.attn_output.weight": (kind, data)})
    told = nibble("convert", file, tmp_path / "out", "--log-level", "info")
    assert told.returncode == 0, told.stderr.decode()
    read = widened(read_safetensors(tmp_path / "out")["model.layers.1.self_attn.o_proj.weight"])
    assert numpy.array_equal(read, rounded_to_bf16(gguf.quants.dequantize(data, kind).reshape(256, 512)))
    assert (kind in (Type.MXFP4, Type.NVFP4)) == (b"rounded" not in told.stderr)
    loaded = nibble("run", file, "-p", "x", "--max-tokens", 1, "--log-level", "info")
    assert loaded.returncode == 0, loaded.stderr.decode()
    in_strips = kind in (Type.Q8_0, Type.MXFP4)  # with int8 activations these blocks are multiplied as stored
    assert ("o: 1 matrices of" if in_strips else f"o: 1 tensors of {kind.name} to BF16") in loaded.stderr.decode()
    as_made = nibble("run", file, "-p", "x", "--max-tokens", 1, "--log-level", "info", "--experts-activations", "float")
    assert f"o: 1 tensors of {kind.name} to BF16" in as_made.stderr.decode()


@pytest.mark.parametrize("kind", [Type.F32, Type.F16], ids=lambda kind: kind.name)
def test_plain_types_have_their_values(tiny_gguf, tmp_path, kind):
    values = numpy.random.default_rng(1).normal(0, 0.1, (256, 512)).astype("<f4" if kind == Type.F32 else "<f2")
    bias = values[0, :256].copy()
    retyped = {"blk.1.attn_output.weight": (kind, values), "blk.1.attn_output.bias": (kind, bias)}
    answer("convert", rewritten(tiny_gguf, tmp_path / "x.gguf", retyped), tmp_path / "out")
    tensors = read_safetensors(tmp_path / "out")
    read = widened(tensors["model.layers.1.self_attn.o_proj.weight"])
    assert numpy.array_equal(read, rounded_to_bf16(values))
    dtype, _, raw = tensors["model.layers.1.self_attn.o_proj.bias"]
    assert dtype == "F32" and numpy.array_equal(numpy.frombuffer(raw, "<f4"), bias.astype("<f4"))


def test_split_files_are_one_model(tiny_gguf, tmp_path):
    reader = gguf.GGUFReader(tiny_gguf)
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "gpt-oss", split_max_tensors=50)
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            kind = field.types[0]
            sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), kind, sub)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    first, second, third = sorted(tmp_path.glob("tiny-0000*-of-00003.gguf"))
    assert answer("run", first, "-p", QUESTION, "--temperature", 0) == ANSWER
    assert "00001-of-00003.gguf" in refusal("run", second, "-p", QUESTION)
    third.unlink()
    assert third.name in refusal("run", first, "-p", QUESTION)


# inspect


def test_inspect_shows_what_is_in_a_file(tiny_gguf):
    report = json.loads(answer("inspect", tiny_gguf, "--json", "--tensors", "--kernels"))
    assert report["num_tensors"] == len(report["tensors"]) == 117
    assert report["metadata"]["gpt-oss.block_count"] == 6
    assert report["metadata"]["tokenizer.ggml.tokens"] == "[4096 values]"
    assert set(report["bytes_by_format"]) == {"BF16", "F32", "MXFP4"}
    assert sum(report["bytes_by_format"].values()) == report["weight_bytes"]
    assert report["config"] == json.loads(answer("inspect", "tiny", "--json"))["config"]
    assert report["kernels"]
    text = answer("inspect", tiny_gguf, "--tensors")
    assert "blk.5.ffn_up_exps.weight" in text and "gpt-oss.rope.freq_base" in text


def test_inspect_shows_each_kernel_of_layers_of_several_types_once(tiny_gguf, tmp_path):
    output = random_blocks(Type.Q8_0, 256, 512)
    mixed = rewritten(tiny_gguf, tmp_path / "mixed.gguf", {"blk.4.attn_output.weight": (Type.Q8_0, output)})
    report = json.loads(
        answer("inspect", mixed, "--json", "--kernels", "--isa", "portable", "--experts-activations", "int8")
    )
    rows = [(row["operation"], row["weights"], row["activations"]) for row in report["kernels"]]
    # The kernel is part of the key because attend has two kernels.
    kernels = [(*row, kernel["kernel"]) for row, kernel in zip(rows, report["kernels"])]
    assert [row for row in rows if row[0] == "project"] == [("project", "BF16", "F32"), ("project", "Q8_0", "INT8")]
    assert len(kernels) == len(set(kernels))


# bad files


def test_files_that_are_damaged_or_of_another_kind(tiny_gguf, tmp_path):
    whole = tiny_gguf.read_bytes()

    def refused(name, contents):
        file = tmp_path / name
        file.write_bytes(contents)
        text = refusal("run", file, "-p", QUESTION)
        assert name in text
        return text

    assert "truncated" in refused("cut.gguf", whole[:-100])
    assert "truncated" in refused("header.gguf", whole[:1000])
    assert "version 2; expected 3" in refused("old.gguf", whole[:4] + b"\2" + whole[5:])
    refused("counts.gguf", whole[:8] + b"\xff" * 8 + whole[16:])  # a count larger than the file allows


def test_models_that_nibble_does_not_run(tiny_gguf, tmp_path):
    def refused(name, **more):
        return refusal("run", rewritten(tiny_gguf, tmp_path / name, **more), "-p", QUESTION)

    experts = random_blocks(Type.Q4_0, 16 * 256, 128).reshape(16, 256, -1)
    assert "Q4_0" in refused("q4.gguf", retyped={"blk.0.ffn_down_exps.weight": (Type.Q4_0, experts)})
    iq = random_blocks(Type.IQ1_S, 256, 512)
    assert "IQ1_S (19); expected" in refused("iq.gguf", retyped={"blk.0.attn_output.weight": (Type.IQ1_S, iq)})
    assert "blk.2.attn_sinks.weight" in refused("sinks.gguf", left_out=["blk.2.attn_sinks.weight"])
    heads = {"gpt-oss.attention.head_count": (7, gguf.GGUFValueType.UINT32)}
    assert "num_key_value_heads" in refused("heads.gguf", keys=heads)
    pre = {"tokenizer.ggml.pre": ("qwen2", gguf.GGUFValueType.STRING)}
    assert "qwen2" in refused("pre.gguf", keys=pre)


def test_conversions_that_are_refused(tiny_gguf, tmp_path):
    assert "exists" in refusal("convert", "tiny", tiny_gguf)
    assert "already" in refusal("convert", "tiny", tmp_path / "folder")
    assert ".gguf" in refusal("convert", tiny_gguf, tmp_path / "folder", "--dense", "q8_0")
    assert "q8_0" in refusal("convert", "tiny", tmp_path / "x.gguf", "--dense", "q3_k")
