"""Tests checkpoints as people have them: saved by programs for fine-tuning, or quantised by other programs."""

import json
import shutil

import pytest
import tokenizers

from test_cli import QUESTION, TINY, answer, nibble, refusal
from test_gguf import ANSWER, read_safetensors, widened


def write_safetensors(file, tensors):
    """Writes {name: (dtype, shape, bytes)}. Uses only the file format, no package."""
    header, at = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(raw for _, _, raw in tensors.values()))


@pytest.fixture
def folder(tmp_path):
    """A copy of the bundled checkpoint, to change."""
    return shutil.copytree(TINY, tmp_path / "model")


def change_config(folder, change):
    file = folder / "config.json"
    config = json.loads(file.read_text())
    change(config)
    file.write_text(json.dumps(config))


def replace_tensors(folder, tensors):
    for file in [*folder.glob("*.safetensors"), *folder.glob("*.index.json")]:
        file.unlink()
    write_safetensors(folder / "model.safetensors", tensors)


def answers(folder):
    return answer("run", folder, "-p", QUESTION, "--temperature", 0) == ANSWER


# what is read


def test_a_model_that_was_saved_in_f16(folder):
    tensors = read_safetensors(folder)
    floats = [name for name, (dtype, _, _) in tensors.items() if dtype == "BF16"]
    for name in floats:
        tensors[name] = ("F16", tensors[name][1], widened(tensors[name]).astype("<f2").tobytes())
    replace_tensors(folder, tensors)
    assert answers(folder)
    answer("convert", folder, folder / "again.gguf")
    assert answer("run", folder / "again.gguf", "-p", QUESTION, "--temperature", 0) == ANSWER


def test_unsloths_names_of_router_and_biases(folder):
    split = {}
    for name, (dtype, shape, raw) in read_safetensors(folder).items():
        if ".mlp.router." in name:
            split[name.replace("router.", "router.linear.")] = (dtype, shape, raw)
        elif name.endswith("_proj_bias"):
            size = len(raw) // shape[0]
            for expert in range(shape[0]):
                part = raw[expert * size : (expert + 1) * size]
                split[f"{name.removesuffix('_bias')}s.{expert}.bias"] = (dtype, shape[1:], part)
        else:
            split[name] = (dtype, shape, raw)
    replace_tensors(folder, split)
    assert answers(folder)


def test_rope_parameters_for_each_kind_of_layer(folder):
    def nest(config):
        rope = config.pop("rope_scaling") | {"rope_theta": config.pop("rope_theta")}
        config["rope_parameters"] = {"full_attention": rope, "sliding_attention": rope}

    change_config(folder, nest)
    assert answers(folder)


def test_an_added_token_that_is_not_special_has_the_ids_of_the_official_package(folder):
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text())
    token = {"id": 4085, "content": "<tool>", "single_word": False, "lstrip": False, "rstrip": False}
    content["added_tokens"].append(token | {"normalized": True, "special": False})
    file.write_text(json.dumps(content))
    official = tokenizers.Tokenizer.from_file(str(file))
    for text in ["a<tool>b", "<tool>", "x <tool> <tool><tool", "no token"]:
        ids = answer("tokenize", folder, "--special", stdin=text.encode()).split()
        assert [int(number) for number in ids] == official.encode(text, add_special_tokens=False).ids
        assert (4085 in map(int, ids)) == ("<tool>" in text)
        assert answer("tokenize", folder, stdin=text.encode()).split() == ids
    assert answers(folder)


def test_frequencies_that_were_saved_with_the_weights_are_ignored(folder):
    tensors = read_safetensors(folder)
    for prefix in ("model.", "model.layers.0.self_attn."):
        tensors[f"{prefix}rotary_emb.inv_freq"] = ("F32", [32], bytes(128))
    replace_tensors(folder, tensors)
    assert answers(folder)


def test_of_two_saves_in_one_folder_only_a_whole_one_is_read(folder):
    tensors = read_safetensors(folder)
    norm = (2 * widened(tensors["model.norm.weight"])).astype("<f4")
    write_safetensors(folder / "model.safetensors", tensors | {"model.norm.weight": ("F32", [256], norm.tobytes())})
    assert "remove those that are left over" in refusal("run", folder, "-p", QUESTION)
    for shard in folder.glob("model-*.safetensors"):
        shard.unlink()
    replaced = nibble("run", folder, "-p", QUESTION, "--temperature", 0)
    assert replaced.stderr.decode().count("model.safetensors.index.json: ignored") == 1
    write_safetensors(folder / "model.safetensors", tensors)
    assert answers(folder)


# chat templates


def test_another_chat_template_is_reported_once(folder):
    assert nibble("run", folder, "-p", QUESTION, "--max-tokens", 1).stderr.count(b"chat template") == 0
    template = folder / "chat_template.jinja"
    template.write_text("{{ messages }}\n" + template.read_text())

    def warnings(*more):
        done = nibble("run", folder, "-p", QUESTION, "--max-tokens", 1, *more)
        assert done.returncode == 0
        return [line for line in done.stderr.decode().splitlines() if "chat template" in line]

    (warning,) = warnings()
    assert f"{template}: this chat template differs" in warning
    assert 'from line 1 on: "{{ messages }}"' in warning
    assert "nibble renders harmony itself" in warning
    assert warnings("--raw") == []  # no template applies


def test_a_template_in_the_tokenizers_configuration_is_found(folder):
    (folder / "chat_template.jinja").unlink()
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text())
    config.pop("chat_template", None)
    file.write_text(json.dumps(config))
    assert b"chat template" not in nibble("run", folder, "-p", QUESTION, "--max-tokens", 1).stderr
    file.write_text(json.dumps(config | {"chat_template": "{{ other }}"}))
    assert b"tokenizer_config.json: chat_template" in nibble("run", folder, "-p", QUESTION, "--max-tokens", 1).stderr


# what is named


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"quantization": {"group_size": 64, "bits": 3}}, "this is an MLX checkpoint with 3-bit groups of 64"),
        (
            {"quantization_config": {"group_size": 32, "bits": 8, "mode": "mxfp8"}},
            "this is an MLX checkpoint with 8-bit groups of 32 (mxfp8)",
        ),
        (
            {"quantization_config": {"quant_method": "awq", "bits": 3, "group_size": 128}},
            "this is an AWQ checkpoint with 3-bit groups of 128",
        ),
        (
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
            "this is a bitsandbytes checkpoint with 4-bit weights",
        ),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ", "group_size": 16}}, '"NVFP4_AWQ"'),
    ],
    ids=["mlx", "mlx_mxfp8", "awq", "bitsandbytes", "nvfp4_awq"],
)
def test_a_quantisation_that_is_not_read_is_named(folder, fields, message):
    change_config(folder, lambda config: config.update(fields))
    text = refusal("run", folder, "-p", QUESTION)
    assert message in text and "missing" not in text


@pytest.mark.parametrize(
    "name, message",
    [
        ("self_attn.q_proj.qweight", "a GPTQ or AWQ checkpoint"),
        ("mlp.experts.gate_proj.scales", "an MLX checkpoint"),
        ("self_attn.q_proj.weight_packed", "q_proj.weight_packed' is I32 [1]; expected I32 [512, 32]"),
    ],
    ids=["gptq", "mlx", "packed"],
)
def test_tensors_of_another_program_are_named_although_the_configuration_is_silent(folder, name, message):
    tensors = read_safetensors(folder)
    del tensors["model.layers.0.self_attn.q_proj.weight"]
    tensors[f"model.layers.0.{name}"] = ("I32", [1], bytes(4))
    replace_tensors(folder, tensors)
    assert message in refusal("run", folder, "-p", QUESTION)


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "base_model.model."])
def test_a_model_that_was_saved_inside_another_is_named(folder, prefix):
    replace_tensors(folder, {prefix + name: tensor for name, tensor in read_safetensors(folder).items()})
    text = refusal("run", folder, "-p", QUESTION)
    assert f"'{prefix}model.embed_tokens.weight' instead of 'model.embed_tokens.weight'" in text


def test_an_adapter_and_pickles_are_named(tmp_path, folder):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    matrix = {"base_model.model.x.lora_A.weight": ("F32", [1], bytes(4))}
    write_safetensors(adapter / "adapter_model.safetensors", matrix)
    (adapter / "adapter_config.json").write_text('{"base_model_name_or_path": "openai/gpt-oss-20b"}')
    assert 'is a LoRA adapter of "openai/gpt-oss-20b"' in refusal("run", adapter, "-p", QUESTION)
    for file in [*folder.glob("*.safetensors"), *folder.glob("*.index.json")]:
        file.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"PK\3\4")
    assert "only Python pickles" in refusal("run", folder, "-p", QUESTION)
