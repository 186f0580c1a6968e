"""Runs the tests of clients that need openai 2, which have an environment of their own (tools/end_to_end makes it)."""

import os
import pathlib
import subprocess

import pytest

from test_serve import serving

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = ROOT / "build/venv-openai2/bin/python"


def run(*arguments, server, timeout=120):
    """Runs Python there, with the server's address and the tests' modules; litellm then asks nobody what models cost."""
    if not PYTHON.exists():
        pytest.skip("the environment for openai 2 is not there: tests/e2e/openai2/requirements.txt could not be installed")
    environment = {**os.environ, "NIBBLE_URL": server.url, "PYTHONPATH": str(ROOT / "tests/e2e"), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run([PYTHON, *arguments], env=environment, capture_output=True, timeout=timeout)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return done.stdout.decode()


def test_litellm_and_instructor():
    with serving() as server:
        told = run("-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / "tests/e2e/openai2/litellm_and_instructor.py", server=server)
    assert "passed" in told and "skipped" not in told
