"""Checks the types of the page's scripts: their JSDoc, with Debian's TypeScript. And their length, so that they stay readable."""

import os
import pathlib
import shutil
import subprocess

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "src/server/page"
TSC = shutil.which("tsc")
MOST_LINES = 300
if not TSC:
    if os.environ.get("CI") == "true":
        raise RuntimeError("the types of the page's scripts need Debian's package node-typescript")
    pytest.skip("there is no tsc", allow_module_level=True)


def faults(folder):
    return subprocess.run([TSC, "-p", folder], capture_output=True, text=True, timeout=300).stdout


def test_the_types_of_all_scripts_agree():
    assert faults(PAGE) == ""


def test_a_call_of_a_missing_function_and_a_wrong_argument_are_found(tmp_path):
    shutil.copytree(PAGE, tmp_path, dirs_exist_ok=True)
    with open(tmp_path / "chat/sidebar.js", "a") as script:
        script.write('store.missing();\nstore.conversation(7);\n')
    found = faults(tmp_path)
    assert "Property 'missing' does not exist" in found and "'number' is not assignable to parameter of type 'string'" in found


def test_scripts_stay_short():
    lengths = {str(file.relative_to(PAGE)): len(file.read_text().splitlines()) for file in PAGE.rglob("*.js")}
    assert len(lengths) > 30 and {name: length for name, length in lengths.items() if length >= MOST_LINES} == {}
