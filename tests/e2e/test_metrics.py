"""Tests /metrics with the parser of Prometheus's official client."""

import gzip
import json
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.request

import openai
import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from test_serve import ENDLESS, NIBBLE, QUESTION, first_event, serving, status_of


def scrape(server):
    """Returns families by name, and all samples by name and labels (without the model's name, which all samples except
    those of the process have)."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=30) as reply:
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
        families = list(text_string_to_metric_families(reply.read().decode()))
    samples = {}
    for family in families:
        of_process = family.name.startswith("process_") or family.name == "nibble_build_info"
        assert (of_process or family.name.startswith(("nibble:", "vllm:"))) and family.documentation
        for sample in family.samples:
            labels = dict(sample.labels)
            assert of_process or labels.pop("model_name") == "tiny"
            key = (sample.name, *sorted(labels.items()))
            assert key not in samples
            samples[key] = sample.value
    return {family.name: family for family in families}, samples


def test_what_was_done_is_counted():
    with serving("--speculate", "off") as server:  # without drafts each token takes one row
        _, before = scrape(server)
        assert before[("nibble:num_requests_running",)] == 0
        assert before[("nibble:kv_cache_pages",)] > 0
        client = server.client()
        reply = client.chat.completions.create(model="tiny", messages=QUESTION, temperature=0)
        cut = client.chat.completions.create(model="tiny", messages=QUESTION, max_tokens=5, n=2)
        stopped = client.chat.completions.create(model="tiny", messages=QUESTION, temperature=0, stop=" = ")
        assert status_of(server.post("/v1/completions", {})) == 400
        families, after = scrape(server)
        # A chat's stop string cancels its generation, which ends after the answer was sent.
        while after[("nibble:e2e_request_latency_seconds_count",)] < 4:
            families, after = scrape(server)

        usages = [reply.usage, cut.usage, stopped.usage]
        num_prompt = reply.usage.prompt_tokens
        assert after[("nibble:prompt_tokens_total",)] == 4 * num_prompt
        assert after[("nibble:prefix_cache_queries_total",)] == 4 * num_prompt
        cached = num_prompt // 32 * 32
        assert after[("nibble:prefix_cache_hits_total",)] == 3 * cached > 0
        # When the server finds a chat's stop string, the engine has run a few more steps.
        generated = after[("nibble:generation_tokens_total",)]
        assert generated >= sum(usage.completion_tokens for usage in usages)

        def ends(reason):
            return after[("nibble:request_success_total", ("finished_reason", reason))]

        assert [ends(reason) for reason in ("stop", "length", "abort", "error")] == [2, 2, 0, 0]
        assert after[("nibble:time_to_first_token_seconds_count",)] == 4
        assert after[("nibble:e2e_request_latency_seconds_count",)] == 4
        assert after[("nibble:request_queue_time_seconds_count",)] == 4
        assert after[("nibble:request_prompt_tokens_sum",)] == 4 * num_prompt
        assert after[("nibble:inter_token_latency_seconds_count",)] == generated - 4
        assert after[("nibble:request_generation_tokens_sum",)] == generated
        times = [
            after[(f"nibble:{name}_seconds_sum",)]
            for name in ("request_queue_time", "request_prefill_time", "request_decode_time", "e2e_request_latency")
        ]
        assert 0 < times[2] and sum(times[:3]) <= times[3]
        # Each prompt token that was not cached takes a row, and each token of an answer except its last.
        steps = after[("nibble:iteration_seconds_count",)]
        rows = after[("nibble:iteration_tokens_total_sum",)]
        assert rows == 4 * num_prompt - 3 * cached + generated - 4
        assert generated / 2 <= steps <= generated and after[("nibble:scheduler_step_seconds_count",)] == steps
        assert after[("nibble:iteration_sequences_sum",)] == generated
        assert families["nibble:iteration_tokens_total"].type == "histogram"

        def requests(endpoint, status):
            return after[("nibble:http_requests_total", ("endpoint", endpoint), ("status", str(status)))]

        assert requests("/v1/chat/completions", 200) == 3 and requests("/v1/completions", 400) == 1
        assert requests("/metrics", 200) >= 1
        assert after[("nibble:num_requests_running",)] == after[("nibble:num_requests_waiting",)] == 0
        assert after[("nibble:kv_cache_usage_perc", ("layers", "full"))] == 0
        assert after[("nibble:engine_faults_total",)] == after[("nibble:num_preemptions_total",)] == 0


def test_what_runs_and_waits_is_seen_and_who_goes_is_an_abort():
    with serving("--max-sequences", 1) as server:
        connections = [server.post("/v1/completions", {**ENDLESS, "stream": True}) for _ in range(3)]
        first_event(connections[0])
        _, now = scrape(server)
        while now[("nibble:num_requests_waiting",)] < 2:  # the requests may not have arrived yet
            _, now = scrape(server)
        assert now[("nibble:num_requests_running",)] == 1
        assert now[("nibble:kv_cache_pages_used", ("layers", "full"))] > 0
        assert 0 < now[("nibble:kv_cache_usage_perc", ("layers", "full"))] < 1
        for connection in connections:
            connection.close()
        while now[("nibble:num_requests_running",)] + now[("nibble:num_requests_waiting",)]:
            _, now = scrape(server)
        for _ in range(100):
            _, now = scrape(server)
            if now[("nibble:request_success_total", ("finished_reason", "abort"))] == 3:
                break
        else:
            pytest.fail("the aborted requests were not counted")
        assert now[("nibble:kv_cache_pages_used", ("layers", "full"))] == 0


def test_gateways_and_dashboards_of_vllm_read_its_names():
    with serving("--max-sequences", 2, "--context", 640) as server:
        server.client().completions.create(model="tiny", prompt="a", max_tokens=5)
        families, samples = scrape(server)
        engine = ("engine", "0")
        assert samples[("vllm:num_requests_waiting", engine)] == samples[("vllm:num_requests_running", engine)] == 0
        assert [name for name, *_ in samples].count("vllm:kv_cache_usage_perc") == 1
        assert ("vllm:kv_cache_usage_perc", engine) in samples and ("nibble:kv_cache_usage_perc",) in samples
        assert samples[("vllm:cache_config_info", ("block_size", "32"), engine, ("num_gpu_blocks", "80"))] == 1
        for name in families:
            if name.startswith("vllm:") and name != "vllm:kv_cache_usage_perc":
                ours = families[name.replace("vllm:", "nibble:")]
                assert len(ours.samples) == len(families[name].samples)


def get(server, **headers):
    return urllib.request.urlopen(urllib.request.Request(server.url + "/metrics", headers=headers), timeout=30)


def test_openmetrics_and_gzip_are_given_to_who_accepts_them():
    with serving() as server:
        server.client().completions.create(model="tiny", prompt="a", max_tokens=5)
        with get(server, Accept="application/openmetrics-text; version=1.0.0,text/plain;q=0.5") as reply:
            assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
            text = reply.read().decode()
        families = {family.name: family for family in openmetrics.text_string_to_metric_families(text)}
        assert families["nibble:generation_tokens"].type == "counter"
        assert families["nibble:generation_tokens"].samples[0].name == "nibble:generation_tokens_total"
        assert families["vllm:time_to_first_token_seconds"].type == "histogram"
        with get(server, **{"Accept-Encoding": "gzip, deflate"}) as reply:
            assert reply.headers["content-encoding"] == "gzip"
            plain = gzip.decompress(reply.read()).decode()
        assert "nibble:generation_tokens_total" in plain and plain.endswith("\n")
        with get(server) as reply:
            assert reply.headers["content-encoding"] is None


def test_metrics_may_be_open_where_all_else_needs_a_key():
    with serving("--api-key", "k") as server, pytest.raises(urllib.error.HTTPError):
        get(server)
    with serving("--api-key", "k", "--metrics-no-auth") as server:
        with get(server) as reply:
            assert reply.status == 200
        assert status_of(server.send(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")) == 401


def test_the_dashboard_asks_for_what_there_is():
    dashboard = json.loads((pathlib.Path(__file__).parents[2] / "docs" / "grafana.json").read_text())
    asked = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            asked |= set(re.findall(r"nibble:\w+", target["expr"]))
    with serving() as server:
        server.client().completions.create(model="tiny", prompt="a", max_tokens=2)
        _, samples = scrape(server)
    assert asked <= {name for name, *_ in samples} and len(asked) > 15


def test_the_process_tells_of_itself():
    with serving("--max-connections", 100) as server:
        _, before = scrape(server)
        kept = [server.send(b"") for _ in range(5)]
        server.client().completions.create(model="tiny", prompt="a", max_tokens=5)
        _, after = scrape(server)
    started = after[("process_start_time_seconds",)]
    assert abs(time.time() - started) < 600 and started == before[("process_start_time_seconds",)]
    assert after[("process_cpu_seconds_total",)] > before[("process_cpu_seconds_total",)] > 0
    assert after[("process_virtual_memory_bytes",)] > after[("process_resident_memory_bytes",)] > 1 << 20
    assert before[("process_open_fds",)] + len(kept) <= after[("process_open_fds",)] <= after[("process_max_fds",)]
    [version] = [dict(key[1:])["version"] for key in after if key[0] == "nibble_build_info"]
    told = subprocess.run([NIBBLE, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
    assert version in told


def test_tokens_are_counted_by_the_names_of_keys():
    with serving("--api-key", "alice:sk-a", "--api-key", "alice:sk-a2", "--api-key", "sk-b", "--metrics-no-auth") as server:
        for key, tokens in (("sk-a", 3), ("sk-a2", 4), ("sk-b", 5)):
            made = server.client(key).completions.create(model="tiny", prompt="It was a", max_tokens=tokens, temperature=0)
            prompt = made.usage.prompt_tokens
        with pytest.raises(openai.BadRequestError):
            server.client("sk-b").completions.create(model="tiny", prompt="a", temperature=9)
        with pytest.raises(openai.AuthenticationError):
            server.client("sk-c").completions.create(model="tiny", prompt="a")
        _, samples = scrape(server)

    def of(name, key, *labels):
        return samples[(f"nibble:key_{name}_total", ("key", key), *labels)]

    assert of("requests", "alice", ("status", "200")) == 2 and of("prompt_tokens", "alice") == 2 * prompt
    assert of("generation_tokens", "alice") == 7 and of("generation_tokens", "key-3") == 5
    assert of("requests", "key-3", ("status", "200")) == of("requests", "key-3", ("status", "400")) == 1
    assert not any("sk-" in value for sample in samples for _, value in sample[1:])
