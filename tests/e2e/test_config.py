"""Tests --config and --check: what a configuration file may contain, what takes precedence over it, and which errors
are found before anything is loaded."""

import json
import os
import pathlib
import re
import subprocess
import urllib.request

import pytest

from test_serve import NIBBLE, serving

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy"


def check(*flags, **variables):
    """Returns exit code, stdout and stderr of `serve --check`."""
    done = subprocess.run(
        [NIBBLE, "serve", *map(str, flags), "--check"],
        capture_output=True,
        timeout=60,
        env={**os.environ, "NIBBLE_THREADS": "1", **variables},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def config(tmp_path):
    def write(text):
        (tmp_path / "nibble.toml").write_text(text)
        return tmp_path / "nibble.toml"

    return write


def test_a_server_is_what_its_file_says(config, tmp_path):
    (tmp_path / "keys").write_text("alice:sk-a\n")
    file = config(
        f"""
        model = "tiny"
        port = 0
        served-model-name = ["one", "two"]
        api-key-file = "{tmp_path}/keys"
        temperature = 0.25
        context = 1024
        no-page = true
        strict = false
        date = 2025-06-28
        """
    )
    # The model is given twice: in the file, and on the command line, which wins.
    with serving("--config", file, name="one") as server:
        request = urllib.request.Request(server.url + "/status.json", headers={"Authorization": "Bearer sk-a"})
        with urllib.request.urlopen(request, timeout=30) as reply:
            told = json.load(reply)
        assert told["defaults"]["temperature"] == 0.25 and told["max_context"] == 1024 and told["model"] == "one"
        assert [model.id for model in server.client("sk-a").models.list()] == ["one", "two"]
        assert server.health("/status") == 404  # because of no-page


def test_command_line_wins_over_variables_and_these_over_the_file(config):
    file = config('model = "tiny"\ntemperature = 0.25\nserved-model-name = ["a", "b"]\ngraphs = "on"\ncontext = 2048\n')

    def temperature(*flags, **variables):
        code, out, _ = check("--config", file, *flags, **variables)
        assert code == 0
        return re.search(r"temperature (\S+),", out)[1]

    assert temperature() == "0.25"
    assert temperature(NIBBLE_TEMPERATURE="0.5") == "0.5"
    assert temperature("--temperature", 1, NIBBLE_TEMPERATURE="0.5") == "1"
    # A list on the command line replaces the list in the file. Two names of one flag are the same flag.
    _, out, _ = check("--config", file, "--served-model-name", "c", "--max-model-len", 1024)
    assert re.search(r"names +c\n", out) and "up to 1024 tokens" in out


@pytest.mark.parametrize(
    "text, told",
    [
        ("temprature = 1", "line 1: unknown setting 'temprature': did you mean temperature? The settings"),
        ("\nmax_sequences = 4", "line 2: unknown setting 'max_sequences': did you mean max-sequences?"),
        ("quantum = 1", "line 1: unknown setting 'quantum'. The settings are the flags of 'nibble serve --help'"),
        ("temperature = 7", "line 1: --temperature '7': expected a number from 0 to 2"),
        ("port = 70000", "line 1: --port: Value 70000 not in range"),
        ('port = "x"', "line 1: "),
        ("strict = 1", "line 1: 'strict' must be true or false"),
        ("port = [1, 2]", "line 1: 'port' takes one value, not a list"),
        ("[server]\nport = 1", "unknown setting 'server'"),
        ("context = 1024\nmax-model-len = 2048", "is set twice"),
        ('config = "x"', "unknown setting 'config'"),
        ("check = true", "unknown setting 'check'"),
        ("port = ", "line 1: "),
        ('api-key = ["a", 1.5, {}]', "line 1: 'api-key' is a table"),
        ("api-key = 12:00:00", "'api-key' must be a text, a number"),
    ],
)
def test_a_fault_in_the_file_is_one_line_that_names_its_place(config, text, told):
    file = config(text + "\n")
    code, out, err = check("tiny", "--config", file)
    assert code == 2 and out == "" and err.count("\n") == 1
    assert told in err and f"--config {file}" in err


def test_a_file_that_is_not_there_is_one_line():
    code, _, err = check("tiny", "--config", "/nowhere/nibble.toml")
    assert code == 2 and "/nowhere/nibble.toml" in err and err.count("\n") == 1


def test_every_flag_can_be_in_the_file(config):
    told = subprocess.run([NIBBLE, "serve", "--help"], capture_output=True, timeout=60, check=True).stdout.decode()
    flags = set(re.findall(r"--([a-z0-9-]+)", told.partition("Endpoints:")[0])) - {"help", "config", "check", "version"}
    assert len(flags) > 40
    for flag in flags:
        _, _, err = check("tiny", "--config", config(f"{flag} = {{}}\n"))  # no flag accepts {}
        assert f"'{flag}' is a table" in err or f"'{flag}' must be " in err, err


def test_the_example_is_right(tmp_path):
    text = (DEPLOY / "nibble.toml").read_text()
    (tmp_path / "keys").write_text("alice:sk-a\n# bob\nsk-b\n")
    for path, here in (("/srv/models/gpt-oss-20b", "tiny"), ("/etc/nibble/keys", str(tmp_path / "keys"))):
        assert f'"{path}"' in text
        text = text.replace(path, here)
    (tmp_path / "nibble.toml").write_text(text)
    code, out, _ = check("--config", tmp_path / "nibble.toml")
    assert code == 0 and "http://127.0.0.1:8000" in out and "alice, key-2" in out and "sk-" not in out
    assert "temperature 0.7" in out and "gpt-oss-20b, openai/gpt-oss-20b" in out


# --check


def test_a_check_tells_what_would_be_served_and_takes_no_port(tmp_path):
    with serving() as server:  # --check works while a server runs
        code, out, err = check("tiny", "--port", server.port, "--context", 1024, "--max-sequences", 2)
    assert code == 0 and err == ""
    lines = dict(re.findall(r"^  (\S+(?: \S+)?)  +(.*)$", out, re.MULTILINE))
    assert out.startswith("tiny can be served.\n") and lines["address"] == f"http://127.0.0.1:{server.port}"
    assert lines["API keys"].startswith("none") and lines["backend"].startswith("cpu: ")
    assert lines["room"].startswith("2 sequences of up to 1024 tokens")
    assert "KV cache" in lines["memory"] and "weights" in lines["memory"]


def test_inspect_and_check_state_the_same_tokens_of_kv_cache():
    room = ["tiny", "--backend", "cpu", "--context", "4096"]
    code, out, _ = check(*room, "--max-sequences", 8)
    inspect = [NIBBLE, "inspect", *room, "--sequences", "8"]
    tokens = json.loads(subprocess.check_output([*inspect, "--json"], timeout=60))["memory"]["kv_tokens"]
    assert code == 0 and f"a KV cache of {tokens} tokens" in out and tokens >= 8 * 4096
    assert re.search(rf"^  KV cache +\S+ \S+  {tokens} tokens$", subprocess.check_output(inspect, timeout=60).decode(), re.MULTILINE)


@pytest.mark.parametrize(
    "flags, told",
    [
        (["/nowhere"], "/nowhere"),
        (["tiny", "--host", "nowhere.example"], "--host 'nowhere.example'"),
        (["tiny", "--unix-socket", "/tmp/" + "x" * 120], "--unix-socket"),
        (["tiny", "--api-key-file", "/dev/null"], "/dev/null: is a device; expected a file"),
        (["tiny", "--context", "1000000"], "--context 1000000"),
        (["tiny", "--tokenizer", "/dev/null"], "/dev/null"),
        (["tiny", "--nonsense"], "--nonsense"),
        ([], "MODEL"),
    ],
)
def test_a_check_finds_what_is_wrong(flags, told):
    code, out, err = check(*flags)
    assert code == 2 and out == "" and err.count("\n") == 1 and told in err
