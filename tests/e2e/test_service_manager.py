"""Tests the messages of the server to systemd (protocol of sd_notify), and that keys are read again on SIGHUP."""

import os
import signal
import socket
import subprocess

import pytest

from test_keys import ask
from test_serve import NIBBLE, serving


def test_a_unit_of_type_notify_follows_the_server(tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(30)

        def told():
            while (message := manager.recv(4096).decode()) == "WATCHDOG=1":
                pass
            return message

        process = subprocess.Popen(
            [NIBBLE, "serve", "tiny", "--port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "NIBBLE_THREADS": "1", "NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "200000"},
        )
        try:
            assert told() == "STATUS=Loading tiny"
            assert told().startswith("READY=1\nSTATUS=Serving tiny on http://127.0.0.1:")
            assert manager.recv(4096) == b"WATCHDOG=1"
            process.send_signal(signal.SIGHUP)
            assert told().startswith("RELOADING=1\nMONOTONIC_USEC=") and told() == "READY=1"
            process.send_signal(signal.SIGTERM)
            assert told().startswith("STOPPING=1\n")
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def keys(tmp_path):
    (tmp_path / "keys").write_text("alice:sk-old\n")
    return tmp_path / "keys"


def reload(server, word):
    """Sends SIGHUP, and waits for the resulting line in the log."""
    server.process.send_signal(signal.SIGHUP)
    for line in server.process.stderr:
        if word in line.decode():
            return line.decode()


def test_keys_are_read_again_and_a_response_stays_its_owners(keys):
    with serving("--api-key-file", keys, "--log-level", "info") as server:
        mine = server.client("sk-old").responses.create(model="tiny", input="Hi", max_output_tokens=4)
        keys.write_text("bob:sk-bob\nalice:sk-new\n")
        assert reload(server, "reloaded the API keys: 2")
        assert ask(server, "/v1/models", "sk-old")[0] == 401
        assert ask(server, "/v1/models", "sk-new")[0] == ask(server, "/v1/models", "sk-bob")[0] == 200
        assert ask(server, "/v1/responses/" + mine.id, "sk-new")[0] == 200
        assert ask(server, "/v1/responses/" + mine.id, "sk-bob")[0] == 404


@pytest.mark.parametrize("fault", ["", "# nobody\n", "a b:sk-secret\n", None])
def test_a_file_with_a_fault_leaves_the_old_keys(keys, fault):
    with serving("--api-key-file", keys) as server:
        if fault is None:
            keys.unlink()
        else:
            keys.write_text(fault)
        line = reload(server, "the API keys were not reloaded")
        assert line.startswith("E ") and str(keys) in line and "secret" not in line
        assert ask(server, "/v1/models", "sk-old")[0] == 200
        assert ask(server, "/v1/models")[0] == 401
