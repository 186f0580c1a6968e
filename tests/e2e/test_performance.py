"""docs/performance.md says what records/ hold: tools/performance makes its tables and pictures."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def performance(*flags):
    return subprocess.run([sys.executable, ROOT / "tools" / "performance", *map(str, flags)], capture_output=True, text=True, timeout=60)


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(ROOT / "records", tmp_path / "records")
    shutil.copytree(ROOT / "docs" / "pictures", tmp_path / "docs" / "pictures")
    shutil.copy(ROOT / "docs" / "performance.md", tmp_path / "docs")
    return tmp_path


def test_the_committed_tables_and_pictures_are_those_of_the_committed_records():
    done = performance("--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_figure_changed_by_hand_or_in_a_record_is_noticed_and_mended(copy):
    document = copy / "docs" / "performance.md"
    made = document.read_text()
    document.write_text(made.replace("| 8,740 (pp2048) |", "| 9,740 (pp2048) |"))
    assert document.read_text() != made
    done = performance("--check", "--root", copy)
    assert done.returncode == 1 and done.stdout.startswith("docs/performance.md: not what records/ make of it")
    assert performance("--root", copy).returncode == 0 and document.read_text() == made

    record = copy / "records" / "cuda-profile.jsonl"
    changed = [json.loads(line) for line in record.read_text().splitlines()]
    next(line for line in changed if line.get("commit") == "8e4217b" and line["num_tokens"] == 1)["us"]["experts"] += 1000
    record.write_text("".join(json.dumps(line) + "\n" for line in changed))
    assert "docs/pictures/h100-step.svg: not what" in performance("--check", "--root", copy).stdout


def test_what_an_older_line_lacks_is_said(copy):
    record = copy / "records" / "cuda-bench.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    for line in lines:
        line.pop("gb_per_s", None)
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert performance("--root", copy).returncode == 0
    assert "| 120b | BF16 | BF16 | pp512 | 5,951 | not recorded | 24 % |" in (copy / "docs" / "performance.md").read_text()


def test_a_record_that_lacks_a_measurement_is_named(copy):
    (copy / "records" / "serve.jsonl").write_text("")
    done = performance("--root", copy)
    assert done.returncode == 1 and done.stderr.startswith("records/serve.jsonl: no line has")


def test_a_run_of_bench_is_read_beside_older_lines_and_has_a_date(copy):
    # The H100's row of the 20b in MXFP4, as `nibble bench --json` writes it today.
    record = copy / "records" / "cuda-bench.jsonl"
    old = [json.loads(line) for line in record.read_text().splitlines()]
    wanted = {"commit": "8e4217b", "model": "synthetic:gpt-oss-20b", "dense": "MXFP4", "test": "tg128"}
    [before] = [line for line in old if wanted.items() <= {key: value for key, value in line.items() if isinstance(value, str)}.items()]
    run = {
        "date": "2026-11-22T10:00:00Z",
        "nibble": {"commit": "8e4217b", "dirty": False},
        "model": before["model"],
        "kernels": [{"operation": "qkv", "weights": "MXFP4"}, {"operation": "attend", "weights": "BF16"}],
        "tests": [{"test": "tg128", "tokens_per_second": {"median": 901.0}, "bytes_per_second": 1.6e12, "share_of_read_bandwidth": 0.5}],
    }
    record.write_text("".join(json.dumps(run if line is before else line) + "\n" for line in old))
    assert performance("--root", copy).returncode == 0
    rows = (copy / "docs" / "performance.md").read_text().splitlines()
    assert "|  | 20b | MXFP4 | not measured | 901 (tg128) | 50 % | not measured | `8e4217b`, 2026-11-22 |" in rows
    assert "| 20b | MXFP4 | BF16 | tg128 | 901 | 1,600 | 50 % |" in rows
