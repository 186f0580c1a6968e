"""Runs tools/soak with fewer requests. Their number does not depend on time, and the checks are the same."""

import json
import os
import subprocess

import pytest

SOAK = os.path.join(os.path.dirname(__file__), "../../tools/soak")


@pytest.mark.parametrize(
    "flags",
    [
        ["--requests", 300, "--clients", 32],  # clients of every kind
        ["--requests", 0, "--open", 150],  # more streams than the server has sequences
    ],
)
def test_good_clients_are_served_beside_bad_ones_and_nothing_is_left(flags):
    # Memory and cores are not checked here.
    command = [SOAK, "--sequences", 16, "--slow", 0.2, "--growth", 0, "--cores", "", *flags]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["left"] == {"answers running": 0, "answers waiting": 0, "pages": 0}
