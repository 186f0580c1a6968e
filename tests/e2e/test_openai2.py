"""Runs the tests of clients that need openai 2, in an environment of their own (made by tools/end_to_end)."""

import os
import pathlib
import subprocess

import pytest

from test_serve import serving

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = ROOT / "build/venv-openai2/bin/python"


def test_litellm_and_instructor():
    if not PYTHON.exists():
        pytest.skip("the environment for openai 2 is not there: tests/e2e/openai2/requirements.txt could not be installed")
    with serving("--context", 8192) as server:
        # The variable keeps litellm from downloading model prices.
        environment = {**os.environ, "NIBBLE_URL": server.url, "PYTHONPATH": str(ROOT / "tests/e2e"), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / "tests/e2e/openai2/litellm_and_instructor.py"]
        done = subprocess.run(command, env=environment, capture_output=True, timeout=600)  # ends a hang: its imports alone take a minute on a busy machine
    told = done.stdout.decode()
    assert done.returncode == 0, told + done.stderr.decode()
    assert "passed" in told and "skipped" not in told
