"""Tests model files that lack something, that change while they are used, and that are no files."""

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import gguf
import pytest

from test_cli import NIBBLE, QUESTION, TINY, answer, refusal
from test_gguf import ANSWER


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory):
    file = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    answer("convert", "tiny", file)
    return file


# keys


def without_key(file, out, left_out):
    """Renames a key of the metadata in place, so that it is absent and all else stays."""
    raw = file.read_bytes()
    key = left_out.encode()
    assert raw.count(key) == 1
    renamed = b"other-x" + key[len("gpt-oss") :]
    out.write_bytes(raw.replace(key, renamed))
    return out


@pytest.mark.parametrize("key", ["rope.scaling.type", "rope.scaling.factor", "attention.layer_norm_rms_epsilon"])
def test_a_gguf_file_without_a_key_that_changes_the_result_is_refused(tiny_gguf, tmp_path, key):
    file = without_key(tiny_gguf, tmp_path / "x.gguf", "gpt-oss." + key)
    assert f"'gpt-oss.{key}' is missing" in refusal("run", file, "-p", QUESTION)


def test_a_checkpoint_with_an_unknown_field_is_refused(tmp_path):
    shutil.copytree(TINY, tmp_path / "tiny")
    config = tmp_path / "tiny" / "config.json"
    text = config.read_text()
    config.write_text(text.replace("{", '{"attention_scale": 0.5,', 1))
    assert 'unknown field "attention_scale"' in refusal("run", tmp_path / "tiny", "-p", QUESTION)
    config.write_text(text.replace("{", '{"unsloth_version": "2025.8.1",', 1))
    assert answer("run", tmp_path / "tiny", "-p", QUESTION, "--temperature", 0) == ANSWER


# names


def as_of_ollama(file, out):
    """Writes the same model as Ollama's converter does."""
    reader = gguf.GGUFReader(file)
    writer = gguf.GGUFWriter(out, "gptoss")
    left_out = ("GGUF.", "general.architecture", "gpt-oss.expert_feed_forward_length", "gpt-oss.rope.scaling.type")
    for key, field in reader.fields.items():
        if key.startswith(left_out):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        value = "default" if key == "tokenizer.ggml.pre" else field.contents()
        writer.add_key_value(key.replace("gpt-oss.", "gptoss."), value, kind, sub)
    for tensor in reader.tensors:
        name = tensor.name.replace(".attn_output.", ".attn_out.").replace(".attn_sinks.weight", ".attn_sinks")
        name = name.replace(".post_attention_norm.", ".ffn_norm.")
        writer.add_tensor(name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def test_a_model_that_ollama_pulled_is_found_by_its_name(tiny_gguf, tmp_path):
    store = tmp_path / "models"
    manifest = store / "manifests/registry.ollama.ai/library/gpt-oss/20b"
    manifest.parent.mkdir(parents=True)
    (store / "blobs").mkdir()
    digest = "0123456789abcdef" * 4
    as_of_ollama(tiny_gguf, store / "blobs" / f"sha256-{digest}")
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [layer]}))
    question = ["run", "gpt-oss:20b", "-p", QUESTION, "--temperature", 0]
    assert answer(*question, env={"OLLAMA_MODELS": str(store)}) == ANSWER
    assert "gpt-oss/20b" in refusal(*question, env={"OLLAMA_MODELS": str(tmp_path)})


def test_a_folder_of_lm_studio_and_a_revision_in_the_cache_are_models(tiny_gguf, tmp_path):
    folder = tmp_path / ".lmstudio/models/lmstudio-community/gpt-oss-20b-GGUF"
    folder.mkdir(parents=True)
    shutil.copy(tiny_gguf, folder / "gpt-oss-20b-MXFP4.gguf")
    home = {"HOME": str(tmp_path), "HF_HOME": "~/cache"}
    for model in ("lmstudio-community/gpt-oss-20b-GGUF", folder):
        assert answer("run", model, "-p", QUESTION, "--temperature", 0, env=home) == ANSWER
    shutil.copy(tiny_gguf, folder / "other.gguf")
    text = refusal("run", folder, "-p", QUESTION)
    assert "gpt-oss-20b-MXFP4.gguf, other.gguf" in text

    shutil.copytree(TINY, tmp_path / "cache/hub/models--openai--gpt-oss-20b/snapshots/abcdef0123")
    assert answer("run", "openai/gpt-oss-20b@abcdef0", "-p", QUESTION, "--temperature", 0, env=home) == ANSWER


# files that change


@contextlib.contextmanager
def serving(file, *flags):
    command = [NIBBLE, "serve", file, "--port", "0", "--threads", "1", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()
        url = re.fullmatch(r"Serving .* on (http://\S+)\n", process.stdout.readline())
        assert url, process.stderr.read()
        yield process, url[1]
    finally:
        process.kill()
        process.communicate()


def complete(url):
    body = json.dumps({"prompt": "17 + 25 =", "max_tokens": 5, "temperature": 0}).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body), timeout=60) as reply:
        return json.load(reply)["choices"][0]["text"]


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_no_answer_comes_from_a_file_that_was_changed(tiny_gguf, tmp_path, backend):
    file = tmp_path / "changed.gguf"
    shutil.copy(tiny_gguf, file)
    with serving(file, "--backend", backend) as (process, url):
        assert complete(url)
        with open(file, "r+b") as changed:  # overwritten in place, so the mapping shows the new bytes
            changed.seek(-500_000, os.SEEK_END)
            changed.write(bytes(400_000))
        with pytest.raises(urllib.error.HTTPError) as failure:
            complete(url)
        assert failure.value.code >= 500
        assert "was changed after it was opened" in failure.value.read().decode()
        assert process.wait(timeout=60) == 5


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_copy_of_the_file_gives_the_same_answers_after_the_file_is_gone(tiny_gguf, tmp_path, backend):
    file = tmp_path / "read.gguf"
    shutil.copy(tiny_gguf, file)
    with serving(file, "--backend", backend, "--no-mmap") as (process, url):
        before = complete(url)
        with open(file, "r+b") as changed:
            changed.seek(-500_000, os.SEEK_END)
            changed.write(bytes(400_000))
        assert complete(url) == before
        os.truncate(file, 0)
        assert complete(url) == before


def test_every_kind_of_model_gives_the_same_answer_from_a_copy(tiny_gguf):
    for model in (tiny_gguf, TINY):
        assert answer("run", model, "-p", QUESTION, "--temperature", 0, "--no-mmap") == ANSWER


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_file_cut_short_while_it_is_mapped_ends_the_server_with_one_line(tiny_gguf, tmp_path, backend):
    file = tmp_path / "cut.gguf"
    shutil.copy(tiny_gguf, file)
    with serving(file, "--backend", backend) as (process, url):
        assert complete(url)
        os.truncate(file, 100_000)
        with pytest.raises((OSError, http.client.HTTPException)):
            complete(url)
        assert process.wait(timeout=60) == 3
        errors = [line for line in process.stderr.read().splitlines() if line.startswith("nibble: ")]
        assert len(errors) == 1 and str(file) in errors[0] and "cut short" in errors[0]


# files that are no files


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "FIFO"],
        ["run", "FIFO", "-p", "hi"],
        ["run", "tiny", "-p", "hi", "--tokenizer", "FIFO"],
        ["run", "tiny", "-p", "hi", "--json-schema", "FIFO"],
        ["run", "tiny", "-p", "hi", "--grammar", "FIFO"],
        ["run", "tiny", "-p", "hi", "--tuning", "FIFO"],
        ["serve", "tiny", "--config", "FIFO"],
        ["bench", "replay", "tiny", "FIFO"],
        ["inspect", "synthetic:FIFO"],
        ["eval", "tiny", "--golden", "FIFO"],
        ["eval", "tiny", "--text", "FIFO"],
        ["eval", "tiny", "--tasks", "FIFO"],
        ["tokenize", "FIFO"],
        ["convert", "FIFO", "out.gguf"],
        ["bench", "compare", "FIFO", "FIFO"],
        ["serve", "tiny", "--api-key-file", "FIFO"],
        ["profile", "tiny", "--trace", "FIFO"],
        ["profile", "compare", "FIFO", "FIFO"],
        ["bench", "tiny", "--record", "FIFO"],
    ],
    ids=lambda arguments: "_".join(arguments),
)
def test_a_fifo_is_refused_at_once(tmp_path, arguments):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = subprocess.run(
        [NIBBLE, *[argument.replace("FIFO", str(fifo)) for argument in arguments]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
    )
    assert done.returncode == 2
    assert str(fifo) in done.stderr.decode().splitlines()[-1]


def test_a_link_that_leads_nowhere_is_refused_in_one_line(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    model = shutil.copytree(TINY, tmp_path / "model")
    (model / "tokenizer.json").unlink()
    (model / "tokenizer.json").symlink_to("tokenizer.json")
    for text in (refusal("run", loop, "-p", QUESTION), refusal("run", model, "-p", QUESTION), refusal("run", "tiny", "--lora", loop, "-p", QUESTION)):
        assert "Too many levels of symbolic links" in text and "filesystem error" not in text


def test_tune_says_before_it_measures_that_it_cannot_write(tmp_path):
    (tmp_path / "file").write_text("")
    text = refusal("tune", "tiny", "--tuning", tmp_path / "file" / "tuning.json")
    assert "tuning.json: cannot be written" in text and "Not a directory" in text


@pytest.mark.parametrize("command", ["bench", "profile"])
def test_a_folder_is_no_record(tmp_path, command):
    assert f"{tmp_path}: not a regular file" in refusal(command, "compare", tmp_path, tmp_path)


def test_a_device_is_refused():
    assert "is a device" in refusal("inspect", "/dev/zero")
