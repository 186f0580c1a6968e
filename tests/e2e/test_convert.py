"""Tests that a conversion leaves whole files or nothing."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import time

import pytest

from test_cli import NIBBLE, QUESTION, TINY, answer

ENVIRONMENT = {**os.environ, "NIBBLE_THREADS": "1"}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Synthetic weights of 1.3 GB, which take some time to write."""
    file = tmp_path_factory.mktemp("large") / "config.json"
    sizes = {"num_local_experts": 128, "hidden_size": 1024, "intermediate_size": 1024}
    file.write_text(json.dumps(json.loads((TINY / "config.json").read_text()) | sizes))
    return f"synthetic:{file}"


@contextlib.contextmanager
def convert(model, out, **more):
    command = [NIBBLE, "convert", model, str(out)]
    conversion = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, **more)
    try:
        yield conversion
    finally:
        conversion.kill()  # ends it if the test has failed
        conversion.communicate()


def bytes_below(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("name", ["large.gguf", "large"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_conversion_that_was_interrupted(large, tmp_path, name, number):
    with convert(large, tmp_path / name) as conversion:
        end = time.monotonic() + 120
        while bytes_below(tmp_path) < 1_000_000:
            assert conversion.poll() is None and time.monotonic() < end
            time.sleep(0.02)
        assert not (tmp_path / "large.gguf").exists() and not list(tmp_path.glob("large/*.safetensors"))
        conversion.send_signal(number)
        _, told = conversion.communicate(timeout=120)
    assert conversion.returncode == 128 + number
    assert told.decode().splitlines()[-1].startswith("nibble: interrupted")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_an_opened_model_whose_conversion_was_interrupted(tmp_path, number):
    """Unlike synthetic weights, an opened model has threads, which were started before the first file is written."""
    stops = 0
    for _ in range(20):
        with convert("tiny", tmp_path / "tiny.gguf") as conversion:
            while conversion.poll() is None and not list(tmp_path.iterdir()):
                pass
            conversion.send_signal(number)
            conversion.communicate(timeout=120)
        is_whole = conversion.returncode in (0, -number)  # -number: the signal arrived after the last tensor
        assert is_whole or conversion.returncode == 128 + number
        assert [file.name for file in tmp_path.iterdir()] == (["tiny.gguf"] if is_whole else [])
        stops += not is_whole
        (tmp_path / "tiny.gguf").unlink(missing_ok=True)
        if stops == 5:
            break
    assert stops > 0  # some of the conversions did not end before the signal


@pytest.mark.parametrize("name", ["tiny.gguf", "tiny"])
def test_nothing_is_left_of_a_conversion_that_had_no_room(tmp_path, name):
    def limit():  # limits files to a megabyte: writing fails as on a full disk
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    model = "tiny" if name.endswith(".gguf") else f"synthetic:{TINY / 'config.json'}"
    with convert(model, tmp_path / name, preexec_fn=limit, restore_signals=False) as conversion:
        _, told = conversion.communicate(timeout=120)
    assert conversion.returncode == 3
    (line,) = [line for line in told.decode().splitlines() if line.startswith("nibble: ")]
    assert "cannot be written: File too large" in line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_stays_and_is_empty_again(large, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with convert(large, out) as conversion:
        while bytes_below(out) < 1_000_000:
            assert conversion.poll() is None
            time.sleep(0.02)
        conversion.send_signal(signal.SIGINT)
        conversion.communicate(timeout=120)
    assert list(out.iterdir()) == []


def test_a_checkpoint_keeps_its_small_files_on_the_way_through_gguf(tmp_path):
    answer("convert", "tiny", tmp_path / "tiny.gguf")
    answer("convert", tmp_path / "tiny.gguf", tmp_path / "back")
    for name in ["generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"]:
        assert (tmp_path / "back" / name).read_bytes() == (TINY / name).read_bytes(), name
    assert answer("run", tmp_path / "back", "-p", QUESTION, "--temperature", 0) == "17 + 25 = 42.\n"
    left = sorted(file.name for file in (tmp_path / "back").iterdir())
    assert not [name for name in left if "unfinished" in name]
