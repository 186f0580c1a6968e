"""Tests the result of cmake --install: a program that finds its model, a manual page, completions that shells
accept."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

NIBBLE = os.environ["NIBBLE_BINARY"]
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **more):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, **more)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    build = pathlib.Path(NIBBLE).parent
    done = run("cmake", "--install", build, "--prefix", "/usr/local", env={**os.environ, "DESTDIR": str(folder)})
    assert done.returncode == 0, done.stderr
    return folder / "usr/local"


def commands():
    """Returns every command with its flags, as listed by --help."""

    def below(*path):
        text = run(NIBBLE, *path, "--help").stdout
        yield path, re.findall(r"^ +(?:-\w,)?(--[\w-]+)", text, re.MULTILINE)
        if match := re.search(r"^Subcommands:\n((?:.+\n)+)", text, re.MULTILINE):
            for name in re.findall(r"^  ([a-z_]+) ", match[1], re.MULTILINE):
                yield from below(*path, name)

    found = dict(below())
    assert len(found) > 15 and all("--help" in flags for flags in found.values())
    return found


def test_the_program_finds_the_bundled_model(installed, tmp_path):
    told = run(installed / "bin/nibble", "run", "tiny", "--temperature", "0", "-p", "What is 17 + 25?", cwd=tmp_path)
    assert told.stdout == "17 + 25 = 42.\n"


def pages(installed):
    """Returns the manual pages by the name of their command; that of nibble itself is called ""."""
    found = {path.name.removeprefix("nibble").removesuffix(".1").removeprefix("-"): path for path in (installed / "share/man/man1").iterdir()}
    assert found.keys() == {path[0] if path else "" for path in commands()}
    return found


@pytest.mark.skipif(not shutil.which("man"), reason="no man here")
def test_the_manual_pages_have_all_that_help_says(installed):
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "200", "MAN_KEEP_FORMATTING": "", "PAGER": "cat"}
    words = {}
    for name, page in pages(installed).items():
        shown = run("man", "--warnings", "-l", page, env=environment)
        assert shown.returncode == 0 and shown.stderr == ""
        words[name] = " ".join(shown.stdout.split())
        titles = re.findall(r"^[A-Z]+(?: [A-Z]+)?$", shown.stdout, re.MULTILINE)
        assert set(titles) >= {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "FILES", "EXIT STATUS", "SEE ALSO"}
        assert re.search(r"^(EXAMPLES| +Examples)$", shown.stdout, re.MULTILINE), name
    for path, flags in commands().items():
        page = words[path[0] if path else ""]
        assert all(flag in page for flag in flags), path
        text = run(NIBBLE, *path, "--help").stdout
        descriptions = [" ".join(line[38:].split()) for line in text.splitlines() if line.startswith("  ") and line[36:38] == "  "]
        assert len(descriptions) > 1 and all(line in page for line in descriptions), path
        for paragraph in re.split(r"\n\n+", text.split("\n\n\n")[-1]):
            if paragraph.startswith(("Example", "Flags of the groups", "Settings (the help groups", "Exit codes:")): continue
            assert " ".join(paragraph.split()) in page, (path, paragraph)
    assert all(f"nibble-{name}(1)" in words[""] for name in words if name)


@pytest.mark.skipif(not shutil.which("mandoc"), reason="no mandoc here")
def test_the_manual_pages_have_no_fault(installed):
    told = run("mandoc", "-T", "lint", *pages(installed).values()).stdout.splitlines()
    # An example or the name of a flag cannot be broken.
    assert [line for line in told if "input text line longer than 80 bytes" not in line and "cannot stat" not in line and "referenced manual not found" not in line] == []


def test_a_manual_page_of_no_command_is_refused():
    done = run(NIBBLE, "manual", "sevre")
    assert done.returncode == 2 and done.stderr == "nibble: no command 'sevre': did you mean serve? See 'nibble --help'\n"


def completed(installed, *words):
    """Returns bash's completions of the last word."""
    file = installed / "share/bash-completion/completions/nibble"
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _nibble; printf "%s\\n" "${COMPREPLY[@]}"'
    done = run("bash", "-c", script, "bash", file, "nibble", *words)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


def test_bash_completes_commands_flags_and_values(installed):
    assert {"run", "chat", "serve"} <= set(completed(installed, ""))
    assert completed(installed, "ser") == ["serve"]
    assert completed(installed, "run", "--kv-dtype", "") == ["bf16", "fp8"]
    assert completed(installed, "run", "t") == ["tiny"]
    assert completed(installed, "run", "tiny", "--prompt", "") == []  # free text has no completions
    assert completed(installed, "completions", "") == ["bash", "zsh", "fish"]
    assert set(completed(installed, "bench", "")) >= {"clients", "replay", "acceptance", "compare", "serve", "tiny"}
    for path, flags in commands().items():
        assert set(flags) <= set(completed(installed, *path, "--")), path


@pytest.mark.parametrize(
    "shell, file", [("zsh", "zsh/site-functions/_nibble"), ("fish", "fish/vendor_completions.d/nibble.fish")]
)
def test_other_shells_understand_their_completions(installed, shell, file):
    text = (installed / "share" / file).read_text()
    for flags in commands().values():
        assert all(flag in text or f"-l {flag[2:]} " in text for flag in flags)
    if not shutil.which(shell): pytest.skip(f"no {shell} here")
    done = run(shell, "--no-execute" if shell == "fish" else "-n", installed / "share" / file)
    assert done.returncode == 0 and done.stderr == ""


def test_completions_of_another_shell_are_refused():
    done = run(NIBBLE, "completions", "tcsh")
    assert done.returncode == 2 and "expected one of bash zsh fish" in done.stderr


def test_commands_of_the_readme_can_be_typed_as_they_stand(installed):
    text = (ROOT / "README.md").read_text()
    lines = [re.split(r"\s+# ", line)[0] for line in re.findall(r"^    (nibble .*)$", text, re.MULTILINE)]
    on_path = {**os.environ, "PATH": f"{installed}/bin:{os.environ['PATH']}", "NIBBLE_HISTORY": "off"}
    told = {}
    for line in lines:
        # The tiny model replaces real models, which are not available. A server would never end.
        line = line.replace("openai/gpt-oss-20b", "tiny").replace(" 20b.gguf", " /dev/null")
        if " serve " in line or " convert " in line: line += " --help"
        if " bench " in line: line += " -r 1"
        if " eval " in line: line += " --limit 2"
        told[line] = run("bash", "-c", line, env=on_path, cwd=ROOT, stdin=subprocess.DEVNULL)
        assert told[line].returncode == 0, (line, told[line].stderr)
    assert told['nibble run tiny --temperature 0 -p "Sort 31, 5, 88."'].stdout.strip() == "5, 31, 88"
