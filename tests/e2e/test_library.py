"""Tests the installed library: programs are built outside the tree, by pkg-config and by CMake, and run there."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

NIBBLE = os.environ["NIBBLE_BINARY"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "models/tiny-gpt-oss"  # a bundled model is found near the file that contains the library
QUESTION = "What is 17 + 25?"
ANSWER = "17 + 25 = 42.\n"


def run(*command, **more):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, **more)


def succeed(*command, **more):
    done = run(*command, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    build = pathlib.Path(NIBBLE).parent
    if not (build / "libnibble.so.0").exists(): pytest.skip("this build has no library: it needs NIBBLE_LIBRARY")
    succeed("cmake", "--install", build, "--prefix", "/usr/local", env={**os.environ, "DESTDIR": str(folder)})
    (folder / "usr/local").rename(folder / "moved")  # the files contain no absolute path
    return folder / "moved"


@pytest.fixture(scope="module")
def c_program(prefix, tmp_path_factory):
    folder = tmp_path_factory.mktemp("c")
    shutil.copy(ROOT / "examples/library.c", folder)
    environment = {**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}
    flags = succeed("pkg-config", "--cflags", "--libs", "nibble", env=environment).split()
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    succeed("cc", *strict, "library.c", *flags, f"-Wl,-rpath,{prefix}/lib", "-o", "library", cwd=folder)
    return folder / "library"


def test_a_c_program_built_with_pkg_config_answers_as_nibble_run_does(c_program, tmp_path):
    told = run(c_program, "tiny", QUESTION, cwd=tmp_path)
    assert (told.returncode, told.stdout) == (0, ANSWER.rstrip("\n")), told.stderr
    assert re.fullmatch(r"\n\d+ tokens in the prompt, \d+ in the answer\n", told.stderr), "and nothing else is printed"
    for question in ("Sort 31, 5, 88.", "What is the capital of France?"):
        expected = succeed(NIBBLE, "run", "tiny", "--temperature", "0", "-p", question)
        assert run(c_program, "tiny", question).stdout == expected.rstrip("\n")


def test_a_model_that_is_not_found_has_the_message_of_the_program(c_program, tmp_path):
    expected = run(NIBBLE, "run", "no-such-model", "-p", "x", cwd=tmp_path).stderr
    told = run(c_program, "no-such-model", "x", cwd=tmp_path)
    assert told.returncode == 1
    assert told.stderr.replace("model: ", "nibble: ", 1) == expected


CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(outside LANGUAGES CXX)
find_package(nibble 0.1 REQUIRED)
add_executable(library library.cpp)
target_compile_features(library PRIVATE cxx_std_17)
target_compile_options(library PRIVATE -Wall -Wextra -Wconversion -Wshadow -Werror)
target_link_libraries(library PRIVATE nibble::nibble)
"""


def test_a_cpp_program_built_with_find_package_remembers_the_conversation(prefix, tmp_path):
    shutil.copy(ROOT / "examples/library.cpp", tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    succeed("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    succeed("cmake", "--build", tmp_path / "build")
    told = run(tmp_path / "build/library", "tiny", input=f"{QUESTION}\nWhat is 2 + 3?\n")
    assert told.returncode == 0 and told.stdout.startswith(ANSWER), told.stderr
    known = [int(count) for count in re.findall(r"\((\d+) of \d+ tokens of the prompt were known\)", told.stderr)]
    assert len(known) == 2 and known[1] > 0
    assert "loading tiny: done" in told.stderr


def test_a_cpp_program_built_with_find_package_can_contain_the_library(prefix, tmp_path):
    shutil.copy(ROOT / "examples/library.cpp", tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.replace("nibble::nibble)", "nibble::nibble_static)"))
    succeed("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    succeed("cmake", "--build", tmp_path / "build")
    program = tmp_path / "build/library"
    assert "libnibble" not in succeed("readelf", "-d", program)
    assert run(program, TINY, input=f"{QUESTION}\n").stdout.startswith(ANSWER)


def test_a_c_program_built_with_pkg_config_can_contain_the_library(prefix, tmp_path):
    environment = {**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}
    flags = succeed("pkg-config", "--cflags", "--libs", "nibble-static", env=environment).split()
    succeed("cc", "-std=c99", ROOT / "examples/library.c", *flags, "-o", tmp_path / "library")
    assert "libnibble" not in succeed("readelf", "-d", tmp_path / "library")
    assert succeed(tmp_path / "library", TINY, QUESTION) == ANSWER.rstrip("\n")


def test_only_the_functions_of_the_header_are_exported_each_with_a_version(prefix):
    library = prefix / "lib/libnibble.so.0"
    exported = {line.split()[-1] for line in succeed("nm", "-D", "--defined-only", library).splitlines()}
    header = (prefix / "include/nibble.h").read_text()
    declared = set(re.findall(r"^NIBBLE_API [^(]*?(nibble_\w+)\(", header, re.MULTILINE))
    assert len(declared) > 20
    assert exported == {f"{name}@@NIBBLE_0.1" for name in declared} | {"NIBBLE_0.1"}
    assert "SONAME" in succeed("readelf", "-d", library) and "libnibble.so.0]" in succeed("readelf", "-d", library)


@pytest.fixture(scope="module")
def in_python(prefix):
    """Returns a function that runs a program with the wheel's module and returns its output."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tools/packaging/python"),
        "NIBBLE_LIBRARY": str(prefix / "lib/libnibble.so.0"),
    }
    return lambda program: succeed(sys.executable, "-c", program, env=environment)


def test_python_loads_the_library_by_ctypes(in_python):
    told = in_python(f"""
from nibble_gpt_oss import library

with library.Model("tiny", temperature=0, context=1024, max_sequences=2) as model, model.session() as session:
    events = list(session.ask("{QUESTION}"))
    print("".join(event.text for event in events if event.kind == "text"))
    assert events[-1].kind == "finished" and events[-1].reason == "stop token"
    assert sum(len(event.tokens) for event in events) == events[-1].num_output_tokens
    assert len(model.encode("What is 17 + 25?")) > 3
    answer = session.ask("What is 2 + 3?")
    session.cancel()
    last = list(answer)[-1]
    assert last.kind == "finished" and last.reason in ("cancelled", "stop token"), last
    for event in session.ask("What is 2 + 3?"): break  # the session can be asked again
    assert "".join(event.text for event in session.ask("What is 17 + 25?") if event.kind == "text")
    try:
        model.session(temprature=1)
    except library.Error as error:
        print(error.status, error)
""")
    assert told.startswith(ANSWER + "2 there is no option 'temprature'"), told


def test_the_same_seed_gives_the_tokens_of_nibble_run(in_python):
    told = in_python(f"""
from nibble_gpt_oss import library

model = library.Model("tiny", context=1024, max_sequences=2, date="2025-06-28")
for seed in (1, 2, 3):
    session = model.session(temperature=1.9, top_p=0.99, seed=seed, max_tokens=60)
    print([token for event in session.ask("Tell me a story.") for token in event.tokens])
    session.close()
model.close()
""")
    flags = ["--temperature", "1.9", "--top-p", "0.99", "--max-tokens", "60", "--date", "2025-06-28", "--json"]
    for seed, line in zip((1, 2, 3), told.splitlines(), strict=True):
        expected = succeed(NIBBLE, "run", "tiny", "-p", "Tell me a story.", "--seed", str(seed), *flags)
        assert json.loads(line) == json.loads(expected)["tokens"]
    assert len(set(told.splitlines())) > 1
