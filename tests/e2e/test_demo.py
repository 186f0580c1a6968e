"""Tests what ./demo shows while it compiles: tools/build_progress, which reads Ninja's output."""

import os
import pathlib
import pty
import subprocess

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/build_progress"
BUILD = "".join(f"[{n}/40 {n}.5] Building CXX object {n}.o\n" + "a warning\n" * (n == 3) for n in range(1, 41))


def test_a_log_gets_a_line_per_tenth():
    done = subprocess.run([TOOL], input=BUILD, capture_output=True, text=True, timeout=20)
    lines = done.stderr.splitlines()
    assert done.returncode == 0 and done.stdout == ""
    assert [line.split(",")[0] for line in lines] == ["Building:   2 %", *(f"Building: {10 * n:3d} %" for n in range(1, 11))]
    assert "4 of 40 steps" in lines[1] and "s left" in lines[1] and "left" not in lines[-1]


def test_a_terminal_gets_one_line_that_is_drawn_again():
    screen, end = pty.openpty()
    subprocess.run([TOOL], input=BUILD, stderr=end, text=True, timeout=20, check=True)
    os.close(end)
    shown = os.read(screen, 1 << 16).decode()
    assert shown.count("\r\x1b[K") >= 40 and shown.count("\n") == 1 and "100 %, 40 of 40 steps" in shown


def test_nothing_to_build_says_nothing():
    done = subprocess.run([TOOL], input="ninja: no work to do.\n", capture_output=True, text=True, timeout=20)
    assert done.stderr == "" and done.returncode == 0
