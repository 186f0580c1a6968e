"""Tests the miniature model shared by two processes of this machine, as two machines would share it: what they answer,
who may join, and what happens when one dies."""

import concurrent.futures
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import time

import pytest

from ports import free_ports
from test_cli import GOLDEN, NIBBLE, QUESTION
from test_serve import ENDLESS, Server, first_event

LOST = 4  # exit code after the loss of another node
SPLITS = [[], ["--expert-parallel"]]


@pytest.fixture
def place(tmp_path):
    """Returns the flags that all nodes of a group have."""
    secret = tmp_path / "secret"
    secret.write_text("a secret that two nodes share\n")
    return ["--nodes", "2", "--head", f"127.0.0.1:{free_ports(1)[0]}", "--secret-file", str(secret)]


@contextlib.contextmanager
def node(rank, *arguments, env=None):
    process = subprocess.Popen(
        [NIBBLE, *map(str, arguments), "--node-rank", str(rank)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "NIBBLE_THREADS": "1", **(env or {})},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def end_of(process):
    out, told = process.communicate(timeout=60)
    return process.returncode, out.decode(), told.decode()


def read_until(pipe, text):
    """Reads until `text` has arrived. Returns all that was read."""
    said = ""
    while text not in said:
        assert select.select([pipe], [], [], 60)[0], said
        part = os.read(pipe.fileno(), 65536).decode()
        assert part, said
        said += part
    return said


def run_both(*arguments):
    """Runs the command on both nodes. Returns the head's output; both must exit cleanly."""
    with node(1, *arguments) as follower, node(0, *arguments) as head:
        code, out, told = end_of(head)
        assert code == 0, told
        code, nothing, told = end_of(follower)
        assert (code, nothing) == (0, ""), told
        return out


# the model


def test_two_nodes_answer_as_one(place):
    assert run_both("run", "tiny", "-p", QUESTION, "--temperature", 0, *place) == "17 + 25 = 42.\n"


@pytest.mark.parametrize("split", SPLITS)
def test_golden_data_agree_on_two_nodes(place, split):
    report = json.loads(run_both("eval", "tiny", "--golden", GOLDEN / "golden.json", "--limit", 4, "--json", *place, *split))
    assert all(prompt["is_within"] for prompt in report["prompts"]) and len(report["prompts"]) == 4


@pytest.mark.parametrize("split", SPLITS)
def test_tasks_are_solved_by_two_nodes(place, split):
    report = json.loads(run_both("eval", "tiny", "--tasks", GOLDEN / "eval" / "tasks.jsonl", "--limit", 20, "--json", *place, *split))
    assert report["num_tasks"] == 20 and report["num_different_from_checkpoint"] <= 1


# joining


@pytest.mark.parametrize(
    "flags, env, told",
    [
        ([], {"NIBBLE_SECRET_FILE": "other"}, "the head has a different secret than this node"),
        (["--kv-dtype", "fp8"], {}, "node 1 has different formats than node 0"),
        (["--tensor-split", "1,1", "--experts-activations", "float"], {}, "node 1 has different kernels than node 0"),
        (["--isa", "portable", "--experts-activations", "int8"], {}, "node 1 has different kernels than node 0"),
        (["--expert-parallel"], {}, "node 1 has a different split than node 0: parts 1,1, whole experts; node 0 has parts 1,1"),
    ],
)
def test_a_node_that_differs_is_refused_with_a_line_on_both_sides(place, tmp_path, flags, env, told):
    secret = place[:4]
    if env:
        (tmp_path / "other").write_text("a secret of somebody else\n")
        env = {"NIBBLE_SECRET_FILE": str(tmp_path / "other")}
    with node(0, "run", "tiny", "-p", QUESTION, *place) as head:
        follower_flags = secret if env else place
        with node(1, "run", "tiny", *follower_flags, *flags, env=env) as follower:
            code, out, said = end_of(follower)
        assert (code, out) == (2, "") and said.startswith("nibble: --head") and said.count("\n") == 1 and told in said
        said = read_until(head.stderr, "was refused")  # the follower may end before the head has said so
        head.terminate()  # the head is still waiting
        said += end_of(head)[2]
        assert said.count("was refused") == 1 and ("the secret is wrong" if env else told) in said


# the end


def serving_head(*arguments):
    return node(0, "serve", "tiny", "--port", 0, "--max-sequences", 16, "--context", 4096, *arguments)


def server_of(head):
    head.stdout.readline()
    port = re.search(rb"http://127\.0\.0\.1:(\d+)", head.stdout.readline())
    assert port, head.stderr.read()
    return Server(head, int(port[1]))


def test_a_killed_node_ends_every_stream_with_an_error_and_the_head_with_a_code(place):
    with node(1, "serve", "tiny", *place) as follower, serving_head(*place) as head:
        server = server_of(head)
        body = {**ENDLESS, "max_tokens": 3000, "stream": True}
        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            streams = list(clients.map(lambda _: first_event(server.post("/v1/completions", body)), range(16)))
            killed = time.monotonic()
            follower.kill()
            texts = list(clients.map(lambda stream: stream.read(), streams))
        assert time.monotonic() - killed < 10
        for text in texts:
            assert b'"error":{"message":"the model could not be run: node 1 at 127.0.0.1:' in text
        code, _, told = end_of(head)
        assert time.monotonic() - killed < 10
        assert code == LOST and re.search(r"nibble: node 1 at 127\.0\.0\.1:\d+ closed its connection\n", told)


def test_nodes_end_when_nothing_runs_and_the_other_one_dies(place):
    with node(1, "serve", "tiny", *place) as follower, serving_head(*place) as head:
        server_of(head)
        head.kill()
        code, _, told = end_of(follower)
        assert code == LOST and re.search(r"nibble: node 0 at 127\.0\.0\.1:\d+ closed its connection\n", told)


def test_a_head_that_is_told_to_end_ends_its_nodes_well(place):
    with node(1, "serve", "tiny", *place) as follower, serving_head(*place) as head:
        server_of(head)
        head.send_signal(signal.SIGTERM)
        assert end_of(head)[0] == 0
        assert end_of(follower)[0] == 0


def test_a_node_that_can_not_load_its_share_tells_the_head_why(place):
    with node(1, "run", "tiny", "--require", "qkv=mxfp4", *place) as follower, node(0, "run", "tiny", "-p", QUESTION, *place) as head:
        code, _, told = end_of(follower)
        assert code == 2 and "--require" in told
        code, _, said = end_of(head)
        assert code == LOST and "nibble: node 1 at 127.0.0.1:" in said and "--require" in said
