"""Tests stdout and stderr that cannot be written, limited terminals, the width of --help, misspelt variables."""

import json
import os
import pty
import subprocess

import pytest

from test_cli import GOLDEN, NIBBLE, QUESTION, TINY, answer, nibble

ENVIRONMENT = {**os.environ, "NIBBLE_THREADS": "1"}
RUN = ["run", "tiny", "-p", QUESTION, "--temperature", "0"]


def shell(redirections, *arguments, stdin=b""):
    """Runs nibble in a shell with these redirections."""
    command = ["bash", "-c", f'exec "$0" "$@" {redirections}', NIBBLE, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, env=ENVIRONMENT, timeout=300)


# stderr


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize(
    "arguments, code",
    [
        (RUN, 0),
        (["tokenize", "tiny"], 0),
        (["eval", "tiny", "--text", GOLDEN / "eval" / "prose.txt", "--limit", 1, "--window", 32], 0),
        (["run", "tiny", "--no-such-flag"], 2),
        (["run", "no-such-model", "-p", "x"], 2),
        ([], 2),
    ],
)
def test_an_stderr_that_can_not_be_written_changes_nothing(redirection, arguments, code):
    done = shell(redirection, *arguments, stdin=b"Hello")
    assert done.returncode == code
    # The output of eval contains seconds, which differ.
    assert done.stdout == nibble(*arguments, stdin=b"Hello").stdout or "eval" in arguments


def test_what_is_said_on_a_closed_stderr_lands_in_no_file(tmp_path):
    done = shell("2>&-", "convert", "tiny", tmp_path / "quiet.gguf")
    assert done.returncode == 0
    answer("convert", "tiny", tmp_path / "told.gguf")
    assert (tmp_path / "quiet.gguf").read_bytes() == (tmp_path / "told.gguf").read_bytes()


# stdout


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
@pytest.mark.parametrize(
    "arguments, stdin",
    [
        (RUN, b""),
        ([*RUN, "--json"], b""),
        (["chat", "tiny", "--temperature", "0"], QUESTION.encode()),
        (["tokenize", "tiny"], b"Hello"),
        (["tokenize", "tiny", "--jsonl"], b'{"text": "Hello"}\n'),
        (["harmony", "render", "tiny"], b'{"messages": [{"role": "user", "content": "Hi"}]}'),
        (["harmony", "parse", "tiny"], b'{"tokens": [4071, 462, 4074, 39, 72, 4068]}'),
        (["inspect", "tiny"], b""),
        (["inspect", "tiny", "--tensors", "--json"], b""),  # the output exceeds a buffer
        (["eval", "tiny", "--text", GOLDEN / "eval" / "prose.txt", "--limit", 1, "--window", 32], b""),
        (["eval", "tiny", "--tasks", GOLDEN / "eval" / "tasks.jsonl", "--limit", 1], b""),
        (["bench", "tiny", "-p", 1, "-n", 0, "-r", 1], b""),
        (["bench", "tiny", "-p", 1, "-n", 0, "-r", 1, "--json"], b""),
        (["profile", "tiny", "-r", 1], b""),
        (["tune", "--help"], b""),
        (["--version"], b""),
    ],
)
def test_an_answer_that_can_not_be_written_is_a_failure(redirection, arguments, stdin):
    done = shell(redirection, *arguments, stdin=stdin)
    assert done.returncode == 3
    said = [line for line in done.stderr.decode().splitlines() if line.startswith("nibble: ")]
    assert len(said) == 1 and said[0].startswith("nibble: cannot write the output: "), done.stderr


def test_a_pipe_that_is_closed_early_ends_a_stream_of_lines_quietly():
    lines = b'{"text": "Hello"}\n' * 20_000
    done = subprocess.run(
        ["bash", "-c", f'"{NIBBLE}" tokenize tiny --jsonl | head -n 1; exit "${{PIPESTATUS[0]}}"'],
        input=lines, capture_output=True, env=ENVIRONMENT, timeout=60,
    )
    assert done.stdout.count(b"\n") == 1 and done.stderr == b""
    assert done.returncode == 141  # ended by SIGPIPE, like cat and grep


# lines of JSON


def test_a_bad_line_is_answered_with_its_error_and_the_next_ones_as_ever():
    lines = ['{"text": "Hello"}', "nonsense", "", '{"ids": [4085]}', '{"neither": 1}', '{"ids": [39, 72]}']
    done = nibble("tokenize", "tiny", "--jsonl", stdin="\n".join(lines).encode())
    good, nonsense, unknown, neither, last = map(json.loads, done.stdout.splitlines())
    assert good["ids"] and last == {"text": "Hi"}
    assert "line 2" in nonsense["error"] and "4084" in unknown["error"] and "line 5" in neither["error"]
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1 and b"line 2" in done.stderr and b"2 more lines" in done.stderr


def test_bad_conversations_and_tokens_hold_up_no_others():
    question = '{"messages": [{"role": "user", "content": "Hi"}]}'
    done = nibble("harmony", "render", "tiny", "--jsonl", stdin=f"{{}}\n{question}".encode())
    error, rendered = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 2 and "line 1" in error["error"] and rendered["tokens"]
    done = nibble("harmony", "parse", "tiny", stdin=b'{"tokens": 5}\n{"tokens": [4071, 462, 4074, 39, 72, 4068]}')
    error, parsed = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 2 and "line 1" in error["error"] and parsed["messages"]


# terminals


def on_terminal(kind, *arguments):
    """Returns what a command writes to a terminal that is its stdin, stdout and stderr."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(ENVIRONMENT)
        os.environ.pop("TERM", None)
        if kind:
            os.environ["TERM"] = kind
        os.execv(NIBBLE, [NIBBLE, *map(str, arguments)])
    shown = b""
    try:
        while piece := os.read(terminal, 4096):
            shown += piece
    except OSError:  # the other side has closed
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    return shown


@pytest.mark.parametrize("command", [RUN, ["eval", "tiny", "--text", GOLDEN / "eval" / "prose.txt", "--limit", 2, "--window", 400]])
def test_only_a_terminal_that_understands_them_gets_escape_codes(command):
    assert b"\x1b[" in on_terminal("xterm-256color", *command)
    for kind in ["dumb", None]:
        assert b"\x1b" not in on_terminal(kind, *command)


@pytest.mark.parametrize("what", ["text", "tasks"])
def test_an_evaluation_shows_how_far_it_is(what):
    flags = {
        "text": ["--text", GOLDEN / "eval" / "prose.txt", "--limit", 3, "--window", 512],
        "tasks": ["--tasks", GOLDEN / "eval" / "tasks.jsonl", "--limit", 12],
    }[what]
    unit = {"text": "tokens", "tasks": "tasks"}[what]
    shown = on_terminal("xterm", "eval", "tiny", *flags).decode()
    assert " [" in shown and f" {unit}" in shown and "%" in shown
    # Standard error is not a terminal here, so there is one line of progress, at the end.
    assert f" {unit} in " in nibble("eval", "tiny", *flags).stderr.decode()


# help


def commands(*path):
    """Yields every command that --help lists."""
    yield path
    text = answer(*path, "--help")
    if "Subcommands:" in text:
        for line in text.split("Subcommands:\n", 1)[1].split("\n\n", 1)[0].splitlines():
            if line.startswith("  ") and line[2] != " ":
                yield from commands(*path, line.split()[0])


def test_help_is_no_wider_than_100_columns():
    paths = list(commands())
    assert {("run",), ("serve",), ("bench", "serve"), ("harmony", "parse")} <= set(paths)
    for path in paths:
        wide = [line for line in answer(*path, "--help").splitlines() if len(line) > 100]
        assert wide == [], path


def test_help_fits_a_narrower_terminal(tmp_path):
    script = tmp_path / "narrow"
    script.write_text(f'stty cols 80; exec "{NIBBLE}" run --help\n')
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("bash", ["bash", str(script)])
    shown = b""
    try:
        while piece := os.read(terminal, 4096):
            shown += piece
    except OSError:
        pass
    os.waitpid(pid, 0)
    # Lines with examples are not wrapped.
    prose = [line for line in shown.decode().splitlines() if not line.startswith("  nibble ")]
    assert len(prose) > 50 and max(map(len, prose)) <= 80


# variables


def test_a_misspelt_variable_is_told_with_the_nearest_that_there_is():
    done = nibble("inspect", "tiny", env={"NIBBLE_TEMPRATURE": "0"})
    assert done.returncode == 0 and done.stderr.count(b"\n") == 1
    assert b"NIBBLE_TEMPRATURE" in done.stderr and b"NIBBLE_TEMPERATURE" in done.stderr


def test_variables_of_others_are_no_slips():
    kubernetes = {"NIBBLE_PORT": "tcp://10.0.0.1:80", "NIBBLE_PORT_80_TCP_ADDR": "10.0.0.1", "NIBBLE_SERVICE_HOST": "10.0.0.1"}
    assert nibble("inspect", "tiny", env=kubernetes).stderr == b""
