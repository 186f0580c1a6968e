"""Tests nibble models: what it lists, what it says about models that do not run here, and memory."""

import json
import shutil

import pytest

from test_cli import TINY, answer, refusal


@pytest.fixture
def home(tmp_path):
    """Variables with which no store of this machine is seen."""
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "HF_HOME": str(tmp_path / "hf"), "HF_HUB_CACHE": "", "XDG_CACHE_HOME": "", "OLLAMA_MODELS": str(tmp_path / "ollama")}


def rows(*arguments, env):
    return json.loads(answer("models", "--json", *arguments, env=env))


def test_the_bundled_model_runs_with_its_whole_context(home):
    [tiny] = rows("--backend", "cpu", env=home)
    assert tiny["name"] == "tiny" and tiny["place"] == "bundled" and tiny["runs_here"] and tiny["backend"] == "cpu"
    assert tiny["context"] == json.loads((TINY / "config.json").read_text())["max_position_embeddings"]
    assert tiny["bytes"] == sum(path.stat().st_size for path in TINY.glob("*.safetensors"))
    assert tiny["format"] == "safetensors: MXFP4, BF16"
    head, line = answer("models", "--backend", "cpu", env=home).splitlines()
    assert head.split() == ["NAME", "SIZE", "FORMAT", "CONTEXT", "RUNS", "HERE"]
    assert line.startswith("tiny ") and "13.3 MB" in line and line.endswith("yes, cpu")


def test_a_model_of_a_store_is_listed_and_opened_by_the_same_name(home, tmp_path):
    snapshot = tmp_path / "hf/hub/models--me--mine/snapshots/abcdef0"
    shutil.copytree(TINY, snapshot)
    assert [row["name"] for row in rows(env=home)] == ["me/mine", "tiny"]
    assert answer("run", "me/mine", "--temperature", 0, "-p", "What is 17 + 25?", env=home) == "17 + 25 = 42.\n"
    assert ": did you mean me/mine?" in refusal("run", "me/mnie", "-p", "x", env=home)


def test_what_does_not_run_here_is_listed_with_the_reason(home, tmp_path):
    folder = tmp_path / "models"
    shutil.copytree(TINY, folder / "whole")
    shutil.copytree(TINY, folder / "cut")
    (folder / "cut/model-00001-of-00001.safetensors").unlink()
    (folder / "other.gguf").write_bytes(b"GGUF")
    answer("convert", "tiny", folder / "tiny.gguf")
    found = {row["name"].removeprefix(f"{folder}/"): row for row in rows(folder, env=home)}
    assert found.keys() == {"whole", "cut", "other.gguf", "tiny.gguf"}
    assert found["whole"]["runs_here"] and found["tiny.gguf"]["runs_here"] and found["tiny.gguf"]["format"].startswith("GGUF: MXFP4")
    for name in ("cut", "other.gguf"):
        assert not found[name]["runs_here"] and name in found[name]["why_not"]
    assert "is not a folder" in refusal("models", folder / "none", env=home)


def test_a_model_without_a_vocabulary_does_not_run_here(home, tmp_path):
    folder = tmp_path / "models"
    shutil.copytree(TINY, folder / "bare")
    (folder / "bare/tokenizer.json").unlink()
    answer("convert", f"synthetic:{TINY / 'config.json'}", folder / "bare.gguf")
    for row in rows(folder, env=home):
        assert not row["runs_here"] and "--tokenizer" in row["why_not"]
        assert refusal("run", row["path"], "-p", "x", env=home).endswith(row["why_not"].split(":")[-1] + "\n")
    assert all(row["runs_here"] for row in rows(folder, "--tokenizer", "bytes", env=home))


def test_an_empty_reference_of_the_cache_is_no_model(home, tmp_path):
    repository = tmp_path / "hf/hub/models--me--mine"
    shutil.copytree(TINY, repository / "snapshots/abcdef0")
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("")
    assert [row["name"] for row in rows(env=home)] == ["tiny"]
    assert "model 'me/mine' not found" in refusal("run", "me/mine", "-p", "x", env=home)


def test_nothing_to_list_says_so(home, tmp_path):
    (tmp_path / "empty").mkdir()
    assert answer("models", tmp_path / "empty", env=home).startswith("no models here")
    assert rows(tmp_path / "empty", env=home) == []
