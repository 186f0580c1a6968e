"""Tests tools/compare_engines with nibble, a program that imitates llama-bench, and servers."""

import json
import pathlib
import subprocess
import sys
import time

import pytest
from test_cli import NIBBLE, ROOT, answer

sys.path.insert(0, str(ROOT / "tools"))
from compare_servers import cpu_ticks

LLAMA_BENCH = """#!/bin/sh
case "$*" in *--help*) echo "--n-depth"; exit;; esac
echo '[{"n_gen": 0, "avg_ts": 10.5, "build_commit": "abc", "cpu_info": "A CPU"}, {"n_gen": 64, "avg_ts": 2.5, "build_commit": "abc", "cpu_info": "A CPU"}]'
"""


def test_engines_run_in_turns_and_every_figure_has_a_full_record(tmp_path):
    answer("convert", "tiny", tmp_path / "tiny.gguf")
    other, record = tmp_path / "llama-bench", tmp_path / "out.jsonl"
    other.write_text(LLAMA_BENCH)
    other.chmod(0o755)
    command = [sys.executable, ROOT / "tools" / "compare_engines", tmp_path / "tiny.gguf", "--engine", f"nibble={NIBBLE}",
               "--engine", f"other={other} -rtr 1", "--threads", 1, "--rounds", 2, "--tests", "pp512,tg64", "--record", record]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(line["engine"], line["test"]) for line in lines] == 2 * [("nibble", "pp512"), ("nibble", "tg64"), ("other", "pp512"), ("other", "tg64")]
    for line in lines:
        assert line.keys() >= {"date", "commit", "dirty", "command_line", "machine", "kernels", "num_warmups"}
        assert line["machine"]["memory_bytes"] == lines[0]["machine"]["memory_bytes"] > 0
    assert lines[0]["kernels"] and lines[2]["kernels"] is None and lines[2]["dirty"] is None
    assert lines[3]["tokens_per_second"] == 2.5 and lines[3]["command_line"].startswith("llama-bench -rtr 1 -m ")
    table = done.stdout.splitlines()[-2:]
    assert "| 10.50 (10.50 to 10.50 of 2) |" in table[0] and table[1].startswith("| tg64 |")


def compare_servers(*flags):
    command = [sys.executable, ROOT / "tools" / "compare_engines", "tiny", "--nibble", NIBBLE, *flags]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)


def test_servers_run_in_turns_and_those_that_do_not_start_are_left_out(tmp_path):
    record = tmp_path / "out.jsonl"
    done = compare_servers(
        "--server", "nibble", "--server", "other={nibble} serve {model} --port {port} --threads 1", "--server", "gone=/nowhere/server {port}",
        "--server", "broken={nibble} serve {model} --port {port} --no-such-flag", "--rounds", 2, "--record", record,
        "--load", "--clients 1,2 --requests 4 --warmup 0 --prompt-tokens 20 --output-tokens 4 --vocab-size 500")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(line["engine"], line["round"]) for line in lines] == [("nibble", 0), ("other", 0), ("nibble", 1), ("other", 1)]
    for line in lines:
        assert [(load["load"], load["num_failed"]) for load in line["loads"]] == [("1 client", 0), ("2 clients", 0)]
        assert line["seed"] == line["round"] and line["kernels"] and line["vocab_size"] == 500
    assert done.stdout.count("gone: left out: /nowhere/server: No such file or directory") == 1
    assert done.stdout.count("broken: left out: ended with status 2: nibble: unknown flag '--no-such-flag'") == 1
    table = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert table[0] == "| load | | nibble | other | gone | broken | ratio |"
    cpu = [line for line in table if line.startswith("| all loads | CPU us/token of threads ")]
    assert len(table) == 2 + 2 * 4 + len(cpu) and table[2].startswith("| 1 client | output tok/s | ")
    assert set().union(*(line["server_cpu_seconds"] for line in lines)) <= {"nibble", "compute", "engine", "http"}
    again = compare_servers("--server", "nibble", "--record", record, "--report")
    assert again.returncode == 0 and again.stdout.splitlines()[2].startswith("| 1 client | output tok/s | ")


def test_cpu_time_is_counted_by_the_name_of_the_thread():
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        name = pathlib.Path(f"/proc/{process.pid}/comm").read_text().strip()
        end = time.time() + 60
        while (ticks := cpu_ticks(process.pid))[name] == 0 and time.time() < end:
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()
    assert ticks.keys() == {name} and ticks[name] > 0


@pytest.mark.parametrize("flags, told", [(("--server", "unheard-of"), "expected one of nibble, vllm, sglang, llama.cpp, or NAME=COMMAND"),
                                         (("--server", "nibble", "--engine", "a=b"), "not allowed with"), ((), "is required")])
def test_wrong_flags_are_told(tmp_path, flags, told):
    done = compare_servers(*flags, "--record", tmp_path / "out.jsonl")
    assert done.returncode != 0 and told in done.stderr
