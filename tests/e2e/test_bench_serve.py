"""Tests the load generator, against nibble's server and against servers that misbehave."""

import contextlib
import http.server
import json
import subprocess
import threading
import time

import pytest
from test_serve import NIBBLE, serving


def bench(*flags):
    return subprocess.run([NIBBLE, "bench", "serve", *map(str, flags)], capture_output=True, timeout=120, text=True)


def loads_of(*flags):
    done = bench(*flags, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["loads"]


@pytest.fixture(scope="module")
def server():
    with serving("--context", 1024) as running:
        yield running


SMALL = ("--prompt-tokens", 40, "--output-tokens", 6, "--requests", 12)


def test_every_request_of_every_load_is_counted(server):
    one, four = loads_of(server.url, *SMALL, "--clients", "1,4")
    for load, clients in (one, 1), (four, 4):
        assert load["num_clients"] == clients == load["max_open"]
        assert (load["num_requests"], load["num_failed"], load["errors"]) == (12, 0, [])
        assert load["num_prompt_tokens"] == 12 * 40 and load["num_output_tokens"] == 12 * 6
        ttft, e2e = load["ttft_seconds"], load["e2e_seconds"]
        assert 0 < ttft["p50"] <= ttft["p90"] <= ttft["p99"] <= ttft["max"] <= e2e["max"]
        assert load["output_tokens_per_second"] == pytest.approx(6 * load["requests_per_second"])


def test_the_record_says_when_and_on_which_machine_the_client_ran(server):
    [line] = bench(server.url, *SMALL, "--warmup", 3, "--json").stdout.splitlines()
    record = json.loads(line)
    assert record["date"].endswith("Z") and record["num_warmups"] == 3 and record["command_line"].startswith("nibble bench serve")
    assert record["machine"]["num_cores"] > 0 and record["nibble"]["commit"]
    assert record["kernels"] is None  # those of the server, which are not known


def test_a_rate_and_a_chat_with_a_shared_prefix(server):
    [load] = loads_of(server.url, *SMALL, "--rate", 50, "--api", "chat", "--prefix-tokens", 100)
    assert load["rate"] == 50 and load["num_failed"] == 0
    assert load["num_prompt_tokens"] > 12 * 140  # plus the template
    # 12 arrivals at 50 per second take 0.22 s on average; the probability of less than 0.02 s is below 1e-8.
    assert load["seconds"] > 0.02


def test_requests_have_what_they_are_told_to(server):
    form = '{"regex": "[a-z ]{4000}", "ignore_eos": false}'
    [load] = loads_of(server.url, *SMALL, "--extra-body", form)
    assert load["num_failed"] == 0 and load["num_output_tokens"] == 12 * 6
    [load] = loads_of(server.url, *SMALL, "--extra-body", '{"max_tokens": 2}')
    assert load["num_output_tokens"] == 12 * 2
    for wrong in ("[1]", "{", ""):
        refused = bench(server.url, *SMALL, "--extra-body", wrong)
        assert refused.returncode == 2 and refused.stderr.startswith("nibble: --extra-body: accepted is a JSON object")


def test_the_table_has_a_row_for_each_load(server):
    done = bench(server.url, *SMALL, "--clients", "1,2", "--seed", 3)
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) == 4 and rows[2].startswith("| 1 client ") and rows[3].startswith("| 2 clients ")
    assert len({row.count("|") for row in rows}) == 1
    assert "seed 3" in done.stdout


def test_the_key_is_sent():
    with serving("--api-key", "hush") as server:
        done = bench(server.url, *SMALL)
        assert done.returncode == 2 and "HTTP 401" in done.stderr
        done = bench(server.url, *SMALL, "--api-key", "hush")
        assert done.returncode == 0 and "hush" not in done.stdout


@pytest.mark.parametrize(
    "url, said",
    [
        ("http://127.0.0.1:1", "http://127.0.0.1:1/v1/models can't be asked: Connection refused"),
        ("http://127.0.0.1:1/", "is it the address of a server"),
        ("127.0.0.1:8080", "does not begin with http://"),
        ("https://127.0.0.1", "TLS is not spoken here"),
    ],
)
def test_what_can_not_be_reached_is_one_clear_line(url, said):
    done = bench(url)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""
    assert done.stderr.startswith("nibble: ") and done.stderr.count("\n") == 1


def test_another_path_or_model_is_told_as_the_server_says_it(server):
    done = bench(server.url + "/nowhere")
    assert done.returncode == 2 and "HTTP 404: there is no '/nowhere/v1/models' here" in done.stderr
    done = bench(server.url, "--model", "other")
    assert done.returncode == 2 and "HTTP 404: The model `other` does not exist" in done.stderr


# arbitrary servers


@contextlib.contextmanager
def answering(answer):
    """A server that answers POSTs with `answer(handler, number of earlier POSTs)`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        num_posts = 0

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            Handler.num_posts += 1
            answer(self, Handler.num_posts - 1)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 64  # simultaneous connections; the system would drop some of more than this

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def begin(handler, status=200):
    handler.send_response(status)
    handler.end_headers()


def send(handler, *events):
    for event in events:
        handler.wfile.write(b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n")
    handler.wfile.flush()


TEXT = {"choices": [{"text": "a"}]}


def test_errors_are_counted_by_kind():
    def answer(handler, number):
        kind = number % 6
        begin(handler, 429 if kind == 1 else 200)
        if kind == 0:
            send(handler, TEXT, b"[DONE]")
        elif kind == 1:
            handler.wfile.write(b'{"error": {"message": "full"}}')
        elif kind == 2:
            send(handler, TEXT, {"error": {"message": "fire"}}, b"[DONE]")
        elif kind == 3:
            send(handler, TEXT)
        elif kind == 4:
            send(handler, b"{")
        else:
            time.sleep(3)

    with answering(answer) as url:
        [load] = loads_of(url, "--model", "m", "--requests", 12, "--clients", 12, "--warmup", 0, "--timeout", 1)
    errors = {error["kind"]: (error["count"], error["example"]) for error in load["errors"]}
    assert errors == {
        "HTTP 429": (2, "full"),
        "error in the stream": (4, errors["error in the stream"][1]),
        "no streamed answer": (2, "the answer ended without the event [DONE]"),
        "timeout": (2, "timeout"),
    }
    assert load["num_failed"] == 10 and load["num_uncounted"] == 2 == load["num_output_tokens"]


def test_each_event_has_the_time_of_its_arrival():
    def answer(handler, _):
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for event in (TEXT, TEXT, TEXT, b"[DONE]"):
            data = b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            handler.wfile.flush()
            time.sleep(0.2)
        handler.wfile.write(b"0\r\n\r\n")

    with answering(answer) as url:
        [load] = loads_of(url, "--model", "m", "--requests", 1, "--warmup", 0)
    # Lower bounds only: a slow machine makes times longer, not shorter. Half of each pause allows for late wake-ups.
    assert load["itl_seconds"]["p50"] > 0.1
    assert load["e2e_seconds"]["max"] - load["ttft_seconds"]["max"] > 0.5
