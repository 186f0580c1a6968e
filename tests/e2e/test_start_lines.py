"""Tests launch commands for gpt-oss from the public recipes of other engines. The model is the bundled one; the rest of each
command is as published. NIBBLE_BINARY is the program's path."""

import re

import pytest

from test_cli import QUESTION, ROOT, nibble, refusal
from test_serve import serving

HEAD = str(ROOT / "models/tiny-gpt-oss-eagle3/specforge")


def check(line):
    """Returns the exit code, output and log of `serve --check` with these arguments."""
    done = nibble("serve", *line.replace("HEAD", HEAD).split(), "--check")
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    "line, num_notes",
    [
        # vLLM's recipe for gpt-oss
        ("tiny", 0),
        ("tiny --async-scheduling", 1),
        ("tiny --tool-call-parser openai --enable-auto-tool-choice", 2),
        ("tiny --max-model-len 131072 --max-num-batched-tokens 10240 --max-num-seqs 128 --no-enable-prefix-caching", 1),
        ("tiny --kv-cache-dtype fp8 --no-enable-prefix-caching --max-cudagraph-capture-size 2048 --stream-interval 20", 3),
        ("tiny --attention-backend ROCM_AITER_UNIFIED_ATTN -cc.pass_config.fuse_rope_kvcache=True --block-size=64", 3),
        ("tiny --enable-auto-tool-choice --tool-call-parser openai --tensor-parallel-size 1 --trust-remote-code", 3),
        ('tiny --speculative-config {"model":"HEAD","num_speculative_tokens":3,"method":"eagle3","draft_tensor_parallel_size":1}', 0),
        # SGLang's documents and announcement
        ("--model-path tiny --reasoning-parser gpt-oss --tool-call-parser gpt-oss --host 0.0.0.0", 3),
        ("--model tiny --trust-remote-code --attention-backend triton --cuda-graph-max-bs 32 --max-running-requests 8", 4),
        (
            "--model tiny --speculative-algorithm EAGLE3 --speculative-draft-model-path HEAD --speculative-num-steps 5"
            " --speculative-eagle-topk 4 --speculative-num-draft-tokens 8",
            1,
        ),
        # TensorRT-LLM's, for a DGX Spark and for low latency
        ("tiny --max_batch_size 64 --trust_remote_code --port 8355", 2),
        ("tiny --host 0.0.0.0 --port 8000 --backend pytorch --tp_size 1 --ep_size 1 --trust_remote_code", 3),
        # llama.cpp's guide for gpt-oss
        ("-hf tiny --ctx-size 0 --jinja -ub 2048 -b 2048", 5),
        ("-hf tiny --ctx-size 131072 -np 1 --jinja -ub 2048 -b 2048 -ngl 99 -fa --no-mmap --port 8080", 8),
    ],
)
def test_a_published_start_line_is_understood(line, num_notes):
    code, told, log = check(line)
    assert code == 0 and told.startswith("tiny can be served."), log
    assert len(log.splitlines()) == num_notes, log
    assert all(re.fullmatch(r"W \S+ -\S.*( needs nothing: |read as ).+", note) for note in log.splitlines()), log


@pytest.mark.parametrize(
    "line, told",
    [
        ("tiny --tensor-parallel-size 2 --async-scheduling", "--tensor-parallel-size is only for GPUs"),
        ("tiny --tensor_parallel_size 8 --gpu-memory-utilization 0.85", "is only for GPUs, and the backend is cpu"),
        ("--model-path tiny --tp 8 --mem-fraction-static 0.98", "--gpu-memory-utilization is only for GPUs"),
        ("--model tiny --disable-cuda-graph", "--no-graphs is only for GPUs"),
        ("tiny --tp_size 8 --ep_size 8 --max_batch_size 640", "--tensor-parallel-size is only for GPUs"),
    ],
)
def test_a_start_line_for_gpus_gets_as_far_as_the_lack_of_a_gpu(line, told):
    code, _, log = check(line + " --backend cpu")
    assert code == 2 and told in log.splitlines()[-1]


@pytest.mark.parametrize(
    "line, told",
    [
        ("tiny --tool-server demo", ["--tool-server demo is not supported: the server runs no tools"]),
        ("tiny --config GPT-OSS_Hopper.yaml", ["the file of --config is TOML"]),
        (
            "tiny --backend pytorch --extra_llm_api_options low_latency.yaml --kv_cache_free_gpu_memory_fraction 0.75",
            ["no YAML is read", "is a share of all of it"],
        ),
        ("-hf tiny --ctx-size 32768 --jinja --n-cpu-moe 8", ["--n-cpu-moe 8 is not supported: all layers are on one backend"]),
        ("-hf tiny -c 0 -fa --jinja --reasoning-format none", ["never in `content`"]),
        ("tiny --quantization fp8 --dtype half --load-format dummy", ["--fp8-layers", "bfloat16", "synthetic:gpt-oss-20b"]),
        ("tiny --hf-overrides {}", ["config.json is used as it is"]),
        ("tiny -np none", ["--max-sequences 'none': expected a whole number", "(-np none is read as --max-sequences none)"]),
        ("tiny --max-queued-requests x", ["(--max-queued-requests x is read as --max-queue x)"]),
    ],
)
def test_what_nibble_does_not_do_is_refused_in_one_line_with_the_reason(line, told):
    text = refusal("serve", *line.split())
    assert all(part in text for part in told), text


def test_a_server_started_with_a_line_for_vllm_answers():
    flags = ["--tool-call-parser", "openai", "--enable-auto-tool-choice", "--served-model-name", "gpt-oss", "small"]
    with serving(*flags, "--speculative-config.method", "ngram", "--enable-prefix-caching", name="gpt-oss") as server:
        messages = [{"role": "user", "content": QUESTION}]
        answer = server.client().chat.completions.create(model="small", messages=messages, temperature=0)
        assert answer.choices[0].message.content == "17 + 25 = 42."


def test_the_same_flags_work_with_run():
    done = nibble("run", "tiny", "-p", QUESTION, "--temp", "0", "--kv-cache-dtype", "auto", "--trust-remote-code")
    assert done.returncode == 0 and done.stdout == b"17 + 25 = 42.\n"
    assert b"--kv-cache-dtype auto is read as --kv-dtype bf16" in done.stderr
