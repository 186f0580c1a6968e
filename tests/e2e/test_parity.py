"""Tests tools/parity with programs that only note how they are called."""

import pathlib
import subprocess

import pytest

PARITY = pathlib.Path(__file__).parents[2] / "tools" / "parity"


@pytest.mark.parametrize("verdict", [0, 1, 2])
def test_both_programs_run_in_turns_and_the_comparison_decides(tmp_path, verdict):
    calls = tmp_path / "calls"
    for name in ("old", "new"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{calls}\n[ "$2" != compare ] || exit {verdict}\n')
        (tmp_path / name).chmod(0o755)
    command = [PARITY, "old", "new", "tiny", "-p", "16", "-n", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=20)
    assert done.returncode == verdict and done.stdout == ""
    *runs, compare = [call.split() for call in calls.read_text().splitlines()]
    assert [run[0] for run in runs] == ["old", "new", "new", "old"]
    records = {run[0]: run[-1] for run in runs}
    for run in runs:
        assert run[1:] == ["bench", "tiny", "-p", "16", "-n", "2", "--record", records[run[0]]]
    assert compare == ["new", "bench", "compare", records["old"], records["new"], "--fail-on", "slower"]
    assert not pathlib.Path(records["old"]).parent.exists()


def test_a_program_that_fails_ends_the_comparison(tmp_path):
    (tmp_path / "old").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "old").chmod(0o755)
    assert subprocess.run([PARITY, "old", "old", "tiny"], cwd=tmp_path, capture_output=True, timeout=20).returncode == 3
    assert subprocess.run([PARITY, "old"], cwd=tmp_path, capture_output=True, timeout=20).returncode == 2
