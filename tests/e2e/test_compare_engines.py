"""Tests tools/compare_engines with nibble and a program that imitates llama-bench."""

import json
import subprocess
import sys

from test_cli import NIBBLE, ROOT, answer

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
