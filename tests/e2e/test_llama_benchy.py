"""Runs llama-benchy against the server, and compares its figures with those of `nibble bench serve`. Needs no network: the
tokenizer is the bundled model's, and the test serves the book."""

import contextlib
import functools
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from test_bench_serve import bench
from test_serve import serving

ROOT = pathlib.Path(__file__).parents[2]
NUM_RUNS, NUM_PROMPT, NUM_OUTPUT, DEPTH = 2, 128, 16, 256


@contextlib.contextmanager
def book_in(folder):
    (folder / "book.txt").write_text((ROOT / "docs/benchmarking.md").read_text())
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/book.txt"
        server.shutdown()


@pytest.fixture(scope="module")
def server():
    with serving("--context", 2048) as running:
        yield running


@pytest.fixture(scope="module")
def report(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama-benchy")
    out = folder / "report.json"
    with book_in(folder) as book:
        flags = ["--base-url", server.url + "/v1", "--model", "tiny", "--tokenizer", ROOT / "models/tiny-gpt-oss", "--book-url", book]
        flags += ["--pp", NUM_PROMPT, "--tg", NUM_OUTPUT, "--exact-tg", "--depth", 0, DEPTH, "--concurrency", 1, 2, "--runs", NUM_RUNS]
        # The coherence check is left out: the bundled model can't name the capital of France.
        flags += ["--enable-prefix-caching", "--latency-mode", "generation", "--skip-coherence", "--exit-on-first-fail"]
        flags += ["--extra-body", "temperature=0", "--save-result", out, "--format", "json"]
        unreachable = "http://127.0.0.1:9"
        network = {"HOME": str(folder), "HF_HUB_OFFLINE": "1", "http_proxy": unreachable, "https_proxy": unreachable, "no_proxy": "127.0.0.1"}
        done = subprocess.run([sys.executable, "-m", "llama_benchy", *map(str, flags)], capture_output=True, env={**os.environ, **network}, timeout=300, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(out.read_text())


def num_tokens_processed(ttfr, est_ppt, speed, latency):
    """Returns the number of prompt tokens that these times, in seconds, and this speed imply."""
    assert est_ppt == pytest.approx(max(0, ttfr - latency))
    num_tokens = speed * est_ppt
    assert num_tokens == pytest.approx(round(num_tokens))
    return round(num_tokens)


def test_llama_benchy_gets_every_row(report):
    found = [(run["concurrency"], run["context_size"], run["is_context_prefill_phase"]) for run in report["benchmarks"]]
    expected = [(clients, depth, is_context) for depth in (0, DEPTH) for clients in (1, 2) for is_context in ((True, False) if depth else (False,))]
    assert sorted(found) == sorted(expected)
    for run in report["benchmarks"]:
        num_requests = NUM_RUNS * run["concurrency"]
        for name in ("ttfr", "est_ppt", "e2e_ttft"):
            assert len(run[name]["values"]) == num_requests, (name, run)
        assert all(0 < ttfr <= ttft for ttfr, ttft in zip(run["ttfr"]["values"], run["e2e_ttft"]["values"]))
    # An answer that arrived in one read, as happens on a busy machine, has no speed.
    speeds = [speed for run in report["benchmarks"] if run["tg_req_throughput"] for speed in run["tg_req_throughput"]["values"]]
    assert speeds and all(speed > 0 for speed in speeds)


def test_the_document_names_the_version_that_is_tested(report):
    assert f"`llama-benchy` ({report['version']})" in (ROOT / "docs/operating.md").read_text()


def test_its_figures_are_defined_as_those_of_bench_serve(server, report):
    latency = report["latency_ms"] / 1000
    assert report["latency_mode"] == "generation" and latency > 0
    for run in report["benchmarks"]:
        speeds = run["pp_req_throughput"]["values"] if run["pp_req_throughput"] else []
        times = [(ttfr / 1000, est_ppt / 1000) for ttfr, est_ppt in zip(run["ttfr"]["values"], run["est_ppt"]["values"], strict=True)]
        assert len(speeds) == sum(est_ppt > 0 for _, est_ppt in times)  # no speed if the latency exceeds TTFR
        if len(speeds) == len(times):  # Tokens of the chat template are not counted.
            most = DEPTH if run["is_context_prefill_phase"] else NUM_PROMPT
            assert all(0 < num_tokens_processed(*both, speed, latency) <= most for both, speed in zip(times, speeds))
    own = bench(server.url, "--api", "chat", "--prompt-tokens", NUM_PROMPT, "--output-tokens", NUM_OUTPUT, "--requests", 1, "--latency-mode", "generation", "--json")
    record = json.loads(own.stdout)
    [load] = record["loads"]
    ttfr, est_ppt = load["ttfr_seconds"]["p50"], load["est_ppt_seconds"]["p50"]
    assert 0 < ttfr <= load["ttft_seconds"]["p50"]
    if est_ppt > 0:
        num_tokens = num_tokens_processed(ttfr, est_ppt, load["prefill_tokens_per_second"]["p50"], record["latency_seconds"])
        assert num_tokens == load["num_prompt_tokens"] - load["num_cached_tokens"]
