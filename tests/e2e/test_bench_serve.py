"""Tests the load generator, against nibble's server and against servers that misbehave."""

import contextlib
import http.server
import json
import subprocess
import threading
import time
import urllib.request

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
    assert record["date"].endswith("Z") and record["num_warmups"] == 3 == record["loads"][0]["num_warmups"] and record["command_line"].startswith("nibble bench serve")
    assert record["machine"]["num_cores"] > 0 and record["nibble"]["commit"]


def test_the_record_has_what_nibble_says_about_itself(server):
    record = json.loads(bench(server.url, *SMALL, "--json").stdout)
    assert {"operation", "weights", "activations", "rows", "kernel", "reason"} == record["kernels"][0].keys()
    assert record["launches"] == {} and record["num_gpus"] == 1  # the CPU backend has no graphs
    assert record["drafts"].keys() == {"drafts", "drafted_tokens", "accepted_tokens", "acceptance"}
    assert record["server"]["backend"] == "cpu" and record["server"]["max_context"] == 1024
    assert 256 < record["vocab_size"] < 5000  # the tiny model's vocabulary


def test_the_record_has_the_drafts_of_the_run():
    config = '{"method": "draft_model", "model": "tiny", "num_speculative_tokens": 3}'
    with serving("--context", 1024, "--speculative-config", config) as server:
        flags = ("--prompt-tokens", 40, "--output-tokens", 12, "--requests", 2, "--warmup", 2)
        first, second = (json.loads(bench(server.url, *flags, "--seed", seed, "--json").stdout)["drafts"] for seed in (1, 2))
        status = json.loads(urllib.request.urlopen(f"{server.url}/status.json").read())["engine"]["drafts"]
    for drafts in first, second:
        assert 0 < drafts["drafts"] <= drafts["drafted_tokens"] >= drafts["accepted_tokens"] >= 0
        assert drafts["acceptance"] == pytest.approx(drafts["accepted_tokens"] / drafts["drafted_tokens"])
    # The server also counts drafts for the questions that follow the loads (`coherence`).
    assert first["drafted_tokens"] + second["drafted_tokens"] < status["drafted_tokens"]


def test_prompt_processing_is_the_time_to_the_first_event_less_the_latency(server):
    for mode in ("api", "generation", "none"):
        record = json.loads(bench(server.url, *SMALL[:4], "--requests", 1, "--latency-mode", mode, "--token-times", "--json").stdout)
        [load] = record["loads"]
        [request] = load["requests"]
        latency, ttfr = record["latency_seconds"], load["ttfr_seconds"]["p50"]
        assert record["latency_mode"] == mode and (latency == 0) == (mode == "none")
        assert 0 < ttfr <= load["ttft_seconds"]["p50"] and request["ttfr_ms"] == pytest.approx(1000 * ttfr, abs=0.001)
        processing = load["est_ppt_seconds"]["p50"]
        assert processing == pytest.approx(max(0, ttfr - latency))
        if processing > 0:
            computed = load["num_prompt_tokens"] - load["num_cached_tokens"]
            assert load["prefill_tokens_per_second"]["p50"] == pytest.approx(computed / processing)


def test_the_record_has_the_time_of_every_token_if_it_is_requested(server):
    [load] = loads_of(server.url, *SMALL, "--token-times", "--clients", 2)
    assert len(load["requests"]) == 12
    for request in load["requests"]:
        assert (request["num_prompt_tokens"], request["num_output_tokens"], request["error"]) == (40, 6, None)
        times = [request["ttfr_ms"], *request["token_ms"], request["e2e_ms"]]
        assert len(request["token_ms"]) == 6 and times == sorted(times) and times[0] > 0
    [load] = loads_of(server.url, *SMALL)
    assert "requests" not in load
    done = bench(server.url, *SMALL, "--token-times")
    assert done.returncode == 2 and "--token-times requires --json" in done.stderr


def test_a_prefix_that_all_prompts_share_is_cached_before_the_load(server):
    """TTFT is then measured at the depth of the prefix."""
    [load] = loads_of(server.url, *SMALL, "--prefix-tokens", 512)
    assert load["num_prompt_tokens"] == 12 * 552 and load["num_cached_tokens"] == 12 * 512


def test_a_curve_has_requests_and_warm_ups_in_proportion(server):
    lengths = SMALL[:4]
    two, three = loads_of(server.url, *lengths, "--clients", "2,3", "--requests", "4x", "--warmup", "1x", "--num-gpus", 4)
    for load, clients in (two, 2), (three, 3):
        assert (load["num_requests"], load["num_warmups"], load["max_open"]) == (4 * clients, clients, clients)
        assert load["tokens_per_second"] == pytest.approx(load["prompt_tokens_per_second"] + load["output_tokens_per_second"])
        assert load["tokens_per_second_per_gpu"] == pytest.approx(load["tokens_per_second"] / 4)
        assert load["interactivity"] == pytest.approx(1 / load["tpot_seconds"]["p50"])


def test_the_first_token_counts_without_text(server):
    """The byte of a token that begins a character has no text until the character is complete."""
    with urllib.request.urlopen(urllib.request.Request(server.url + "/tokenize", json.dumps({"content": "\U0001f9ff"}).encode())) as reply:
        lead, *_ = json.load(reply)["tokens"]
    [load] = loads_of(server.url, *SMALL, "--extra-body", json.dumps({"allowed_token_ids": [lead]}))
    assert load["num_failed"] == 0 and load["num_output_tokens"] == 12 * 6
    assert 0 < load["ttft_seconds"]["p50"] < load["e2e_seconds"]["p50"] and load["tpot_seconds"]["p50"] > 0


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_prompts_of_a_conversation_grow_with_its_answers(server, api):
    [load] = loads_of(server.url, "--prompt-tokens", 40, "--output-tokens", 8, "--requests", 3, "--turns", 3, "--api", api)
    assert load["num_requests"] == 9 and load["num_failed"] == 0
    if api == "completions":  # 40, 40 + 8 + 40, 40 + 8 + 40 + 8 + 40
        assert load["num_prompt_tokens"] == 3 * (40 + 88 + 136)
    assert load["num_cached_tokens"] > 0  # from earlier turns


def test_a_load_lasts_for_the_least_time(server):
    [closed] = loads_of(server.url, *SMALL[:4], "--requests", 1, "--min-seconds", 2)
    assert closed["seconds"] > 1.9
    assert closed["num_requests"] > 1 or closed["e2e_seconds"]["max"] > 1.9  # one request on a very slow machine
    [load] = loads_of(server.url, *SMALL, "--rate", 40, "--min-seconds", 1)
    assert load["num_requests"] == 40


def test_a_rate_that_holds_an_slo_is_found(server):
    search = (server.url, "--prompt-tokens", 8, "--output-tokens", 2, "--requests", 1, "--warmup", 0, "--min-seconds", 0)
    record = json.loads(bench(*search, "--slo", "ttft=1e-9", "--json").stdout)
    assert record["highest_rate"] == {"holds": None, "fails": 1 / 64} and record["loads"][0]["slo_share"] == 0
    done = bench(*search, "--slo", "ttft=60,tpot=60")
    assert "- highest rate that holds the SLO for 99 % of the requests: 4096 /s\n" in done.stdout
    assert "SLO met" in done.stdout and "| 100.0 % |" in done.stdout


def test_a_trace_is_replayed(server, tmp_path):
    trace = tmp_path / "trace.jsonl"
    rows = [{"timestamp": 100 * n, "input_length": 520, "output_length": 3, "hash_ids": [5, n]} for n in range(4)]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    [load] = loads_of(server.url, "--workload", trace, "--warmup", 0)
    assert load["load"] == "trace" and load["num_requests"] == 4 and load["seconds"] > 0.3
    assert load["num_prompt_tokens"] == 4 * 520 and load["num_output_tokens"] == 12
    assert load["num_cached_tokens"] >= 480  # a later request finds block 5 in the cache
    [load] = loads_of(server.url, "--workload", trace, "--warmup", 0, "--clients", 2, "--requests", 8)
    assert load["num_requests"] == 8 and load["num_prompt_tokens"] == 8 * 520
    trace.write_text('{"input_length": 1}\n')
    done = bench(server.url, "--workload", trace)
    assert done.returncode == 2 and f"{trace}: line 1.output_length is missing" in done.stderr


@pytest.mark.parametrize(
    "flags, said",
    [
        (("--workload", "2k2k"), "--workload '2k2k': expected 1k1k, 1k8k, 8k1k, or a file"),
        (("--workload", "1k1k", "--prompt-tokens", 5), "--prompt-tokens excludes --workload"),
        (("--rate", 1, "--requests", "10x"), "--requests 10x: a load without --clients needs a number of requests"),
        (("--slo", "ttfb=1"), "--slo 'ttfb=1': expected limits in seconds on ttft, tpot or e2e"),
        (("--prompt-tokens", "lognormal:5"), "lognormal:512:0.8"),
        (("--requests", "ten"), "--requests 'ten': expected a number"),
    ],
)
def test_wrong_flags_are_told(server, flags, said):
    done = bench(server.url, *flags)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


def test_a_rate_and_a_chat_with_a_shared_prefix(server):
    [load] = loads_of(server.url, *SMALL, "--rate", 50, "--api", "chat", "--prefix-tokens", 100)
    assert load["rate"] == 50 and load["num_failed"] == 0
    assert load["num_prompt_tokens"] > 12 * 140  # plus the tokens of the template
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
        assert refused.returncode == 2 and refused.stderr.startswith("nibble: --extra-body: expected a JSON object")


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
        ("http://127.0.0.1:1", "http://127.0.0.1:1/v1/models: request failed: Connection refused"),
        ("http://127.0.0.1:1/", "is this a server with the OpenAI API"),
        ("127.0.0.1:8080", "does not begin with http://"),
        ("https://127.0.0.1", "TLS is not supported"),
    ],
)
def test_what_can_not_be_reached_is_one_clear_line(url, said):
    done = bench(url)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""
    assert done.stderr.startswith("nibble: ") and done.stderr.count("\n") == 1


def test_another_path_or_model_is_told_as_the_server_says_it(server):
    done = bench(server.url + "/nowhere")
    assert done.returncode == 2 and "HTTP 404: '/nowhere/v1/models' does not exist" in done.stderr
    done = bench(server.url, "--model", "other")
    assert done.returncode == 2 and "HTTP 404: The model `other` does not exist" in done.stderr


# servers other than nibble


def test_the_servers_answer_to_a_question_is_shown_after_the_loads(server):
    record = json.loads(bench(server.url, *SMALL, "--json").stdout)
    assert record["coherence"] == {"question": "What is 17 + 25?", "answer": "17 + 25 = 42.", "is_right": True}
    noise = {"choices": [{"delta": {"content": "422 the the"}}]}
    with answering(lambda handler, _: (begin(handler), send(handler, noise, b"[DONE]"))) as url:
        footer = bench(url, "--model", "m", "--api", "chat", "--requests", 1, "--warmup", 0).stdout
    assert '- coherence: DOUBTFUL: "What is 17 + 25?" is answered with "422 the the"\n' in footer
    with answering(lambda handler, n: begin(handler, 400 if n == 1 else 200)) as url:  # the load has one request
        assert "- coherence: not checked: the request failed" in bench(url, "--model", "m", "--requests", 1, "--warmup", 0).stdout


def test_a_server_without_token_ids_has_no_turns_in_completions():
    def answer(handler, _):
        begin(handler)
        send(handler, TEXT, b"[DONE]")

    with answering(answer) as url:
        done = bench(url, "--model", "m", "--turns", 2, "--warmup", 0)
        assert done.returncode == 2 and "use --api chat" in done.stderr
        record = json.loads(bench(url, "--model", "m", "--turns", 2, "--warmup", 0, "--api", "chat", "--requests", 2, "--json").stdout)
    assert record["loads"][0]["num_requests"] == 4
    assert [record[name] for name in ("server", "kernels", "launches", "drafts")] == [None] * 4 and record["vocab_size"] == 199998


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
        request_queue_size = 64  # the system would drop some connections beyond this number

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


def test_a_server_without_a_list_of_models_leaves_the_latency_unknown():
    def answer(handler, _):
        begin(handler)
        send(handler, TEXT, b"[DONE]")

    with answering(answer) as url:
        record = json.loads(bench(url, "--model", "m", "--requests", 1, "--warmup", 0, "--json").stdout)
        [load] = record["loads"]
        assert load["num_failed"] == 0 and load["ttfr_seconds"] is not None
        assert record["latency_seconds"] is None and load["est_ppt_seconds"] is None
        assert "est_ppt is unknown" in bench(url, "--model", "m", "--requests", 1, "--warmup", 0).stdout


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
    # Only lower bounds are checked: a slow machine makes times longer, not shorter. Half of each pause is
    # left for late wake-ups.
    assert load["itl_seconds"]["p50"] > 0.1
    assert load["e2e_seconds"]["max"] - load["ttft_seconds"]["max"] > 0.5
