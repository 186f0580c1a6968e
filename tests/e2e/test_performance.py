"""The documents about speed and quality say what records/ hold: tools/performance makes their tables and pictures."""

import json
import pathlib
import re
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
    for name in ("performance", "history", "kernels", "quality", "scaling", "operating", "dgx-spark"):
        shutil.copy(ROOT / "docs" / f"{name}.md", tmp_path / "docs")
    return tmp_path


def test_the_committed_tables_and_pictures_are_those_of_the_committed_records():
    done = performance("--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_figure_changed_by_hand_or_in_a_record_is_noticed_and_mended(copy):
    document = copy / "docs" / "performance.md"
    made = document.read_text()
    document.write_text(re.sub(r"\| [\d,]+ \(pp2048\) \|", "| 44,117 (pp2048) |", made, count=1))
    assert document.read_text() != made
    done = performance("--check", "--root", copy)
    assert done.returncode == 1 and done.stdout.startswith("docs/performance.md: not what records/ make of it")
    assert performance("--root", copy).returncode == 0 and document.read_text() == made

    record = copy / "records" / "cuda-profile.jsonl"
    changed = [json.loads(line) for line in record.read_text().splitlines()]
    step = next(
        line
        for line in changed
        if line.get("nibble", {}).get("commit") == "735529e14d85"
        and line["machine"]["device"]["name"] == "NVIDIA H200"
        and (line["depth"], line["num_sequences"]) == (160, 1)
    )
    next(part for part in step["parts"] if part["part"] == "experts")["us"] += 1000
    record.write_text("".join(json.dumps(line) + "\n" for line in changed))
    assert "docs/pictures/h200-step.svg: not what" in performance("--check", "--root", copy).stdout


def test_what_an_older_line_lacks_is_said(copy):
    record = copy / "records" / "cpu-engines.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    for line in lines:
        if line["test"] == "tg64 @ d4096":
            line.pop("share_of_measured_bandwidth", None)
            line.pop("share_of_read_bandwidth", None)
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert performance("--root", copy).returncode == 0
    assert "| 20b-q8_0.gguf | tg64 @ d4096 | 17.9 | not recorded |" in (copy / "docs" / "performance.md").read_text()


def test_a_record_that_lacks_a_measurement_is_named(copy):
    (copy / "records" / "serve.jsonl").write_text("")
    done = performance("--root", copy)
    assert done.returncode == 1 and done.stderr.startswith("records/serve.jsonl: no line has")


def test_a_run_of_bench_is_read_beside_older_lines_and_has_a_date(copy):
    record = copy / "records" / "cuda-bench.jsonl"
    runs = [json.loads(line) for line in record.read_text().splitlines()]
    assert any("tests" not in run for run in runs)  # older lines have one test each
    command = "--prompt-lengths 0 --output-lengths 128 --repetitions 5 --mxfp4-layers all"
    [run] = [
        run
        for run in runs
        if run.get("nibble", {}).get("commit") == "2494259a886b"
        and run["machine"]["device"]["name"] == "NVIDIA H100 80GB HBM3"
        and f"synthetic:gpt-oss-20b {command}" in run["command_line"]
    ]
    run["tests"][0] |= {"tokens_per_second": {"median": 901.0}, "bytes_per_second": 1.6e12, "share_of_read_bandwidth": 0.5}
    run["date"] = "2026-11-22T10:00:00Z"
    record.write_text("".join(json.dumps(line) + "\n" for line in runs))
    assert performance("--root", copy).returncode == 0
    rows = (copy / "docs" / "performance.md").read_text().splitlines()
    assert "|  | 20b | MXFP4 | not measured | 901 (tg128) | 50 % | not measured | `2494259`, 2026-11-22 |" in rows
    assert "| 20b | MXFP4 | BF16 | tg128 | 901 | 1,600 | 50 % | `2494259` |" in rows


def test_the_fastest_run_of_a_test_is_kept_next_to_the_newest(copy):
    def row():
        assert performance("--root", copy).returncode == 0
        best = (copy / "docs" / "history.md").read_text().partition("## Best so far")[2]
        [row] = [row for row in best.splitlines() if row.startswith("| H200 | pp2048 | BF16 |")]
        return [cell.strip() for cell in row.split("|")[4:-1]]

    _, _, _, _, newest, commit, ratio = row()
    record = copy / "records" / "cuda-bench.jsonl"
    runs = record.read_text()
    command = "nibble bench synthetic:gpt-oss-120b --prompt-lengths 2048 --output-lengths 128 --depths 0 --repetitions 3 -b 4096"
    run = next(run for run in map(json.loads, runs.splitlines()) if run.get("nibble", {}).get("commit") == "735529e14d85" and "pp2048" in str(run["tests"]))

    def as_run(speed, **other):
        tests = [test | {"tokens_per_second": {"median": speed}} for test in run["tests"] if test["test"] == "pp2048"]
        return json.dumps(run | {"command_line": command, "tests": tests} | other) + "\n"

    record.write_text(runs + as_run(50000.0, date="2026-11-01T00:00:00Z", nibble=run["nibble"] | {"commit": "abcdef012345"}))
    assert row() == ["50,000", "`abcdef0`", "2026-11-01", "`-b 4096`", newest, commit, f"{float(newest.replace(',', '')) / 50000:.2f}"]
    record.write_text(runs + as_run(10000.0, date="2099-01-01T00:00:00Z"))
    assert row()[4] == "10,000" and float(row()[6]) < float(ratio)
    record.write_text(runs + as_run(60000.0, date="2099-01-01T00:00:00Z", command_line=f"{command} --shared-budget 99"))
    assert row()[4] == newest  # a measurement on a smaller GPU is another test


def test_a_run_on_several_gpus_is_not_taken_for_one_on_one(copy):
    def prompt():
        assert performance("--root", copy).returncode == 0
        [row] = [row for row in (copy / "docs" / "performance.md").read_text().splitlines() if row.startswith("| 120b | BF16 | BF16 | pp2048 |")]
        return row

    before = prompt()
    record = copy / "records" / "cuda-bench.jsonl"
    runs = [json.loads(line) for line in record.read_text().splitlines()]
    commits = {run["nibble"]["commit"] for run in runs if "tests" in run}
    [shown] = [commit for commit in commits if commit.startswith(before.split("`")[1])]
    of_two = [run for run in runs if "--tensor-parallel-size 2" in run.get("command_line", "") and run["nibble"]["commit"] == "f7f2f6cbf942"]
    assert any(test["test"] == "pp2048" for run in of_two for test in run["tests"])
    as_shown = [run | {"nibble": run["nibble"] | {"commit": shown}} for run in of_two]
    record.write_text("".join(json.dumps(run) + "\n" for run in runs + as_shown))
    assert prompt() == before  # two runs have 53,388
