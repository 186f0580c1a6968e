"""Tests the program as people run it: answers, refusals, exit codes, the terminal. NIBBLE_BINARY is its path."""

import datetime
import json
import math
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import pytest

NIBBLE = os.environ["NIBBLE_BINARY"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
CUDA_NIBBLE = ROOT / "build" / "cuda" / "nibble"  # built by ./test cuda
TINY = ROOT / "models" / "tiny-gpt-oss"
GOLDEN = ROOT / "tests" / "golden"
QUESTION = "What is 17 + 25?"
NODES = ["--nodes", "2", "--node-rank", "0", "--head", "127.0.0.1:7000"]


def nibble(*arguments, stdin=b"", env=None):
    """Runs nibble with one thread, so that tests that run in parallel do not wait for each other."""
    return subprocess.run(
        [NIBBLE, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, "NIBBLE_THREADS": "1", **(env or {})},
        timeout=300,
    )


def answer(*arguments, **more):
    done = nibble(*arguments, **more)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def refusal(*arguments, **more):
    """Returns the error for bad input: one line on stderr, nothing on stdout, exit code 2."""
    done = nibble(*arguments, **more)
    assert done.returncode == 2
    assert done.stdout == b""
    text = done.stderr.decode()
    assert text.startswith("nibble: ") and text.endswith("\n") and text.count("\n") == 1, text
    return text


# run


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_question_is_answered(backend):
    done = nibble("run", "tiny", "--stats", "-p", QUESTION, "--temperature", 0, "--backend", backend)
    assert done.returncode == 0
    assert done.stdout == b"17 + 25 = 42.\n"  # only the answer
    told = done.stderr.decode()
    assert "reasoning: " in told
    assert "prompt tokens" in told and "tok/s" in told and "B/s" in told


def test_speed_is_not_said_unless_it_is_asked_for():
    done = nibble("run", "tiny", "-p", QUESTION, "--temperature", 0)
    assert "tok/s" not in done.stderr.decode() and b"tokens" not in done.stderr
    done = nibble("run", "tiny", "-p", QUESTION, "--temperature", 0, "--max-tokens", 3)
    assert done.stderr.decode().endswith("(cut off after 3 tokens: --max-tokens)\n")


def test_files_and_stdin_follow_the_prompt_after_a_blank_line(tmp_path):
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("3 and\n")
    two.write_text("6.\n\n")
    alone = answer("run", "tiny", "--json", "--temperature", 0, "-p", "Add\n\n3 and\n\n6.\n\nNow.")
    parts = answer("run", "tiny", "--json", "--temperature", 0, "-p", "Add", "-f", one, "--file", two, stdin=b"Now.\n")

    def said(text):
        return [json.loads(text)[key] for key in ("answer", "reasoning", "tokens", "num_prompt_tokens")]

    assert said(alone) == said(parts)
    assert answer("run", "tiny", "--temperature", 0, "-p", "What is", stdin=b"17 + 25?\n") == answer("run", "tiny", "--temperature", 0, "-p", "What is\n\n17 + 25?")
    with_file = tmp_path / "question.txt"
    with_file.write_text(QUESTION + "\n")
    assert answer("run", "tiny", "--temperature", 0, "-f", with_file) == "17 + 25 = 42.\n"
    assert f"{tmp_path}/none" in refusal("run", "tiny", "-p", "x", "-f", tmp_path / "none")
    with_file.write_bytes(b"caf\xe9")
    assert f"{with_file} is not valid UTF-8 at byte 3" in refusal("run", "tiny", "-p", "x", "-f", with_file)
    assert "standard input is not valid UTF-8" in refusal("run", "tiny", "-p", "x", stdin=b"\xff")


@pytest.mark.parametrize("redirection", ["</dev/null", "<&-"])
def test_a_prompt_needs_no_stdin(redirection):
    command = f'exec "$0" run tiny --temperature 0 -p "{QUESTION}" {redirection}'
    done = subprocess.run(["bash", "-c", command, NIBBLE], capture_output=True, timeout=300, env={**os.environ, "NIBBLE_THREADS": "1"})
    assert done.stdout == b"17 + 25 = 42.\n" and done.returncode == 0


def test_a_question_comes_from_stdin_too():
    assert answer("run", "tiny", "--temperature", 0, stdin=QUESTION.encode() + b"\n") == "17 + 25 = 42.\n"


def test_json_has_everything_about_an_answer():
    result = json.loads(answer("run", "tiny", "-p", QUESTION, "--temperature", 0, "--json", "--logprobs", 2))
    assert result["answer"] == "17 + 25 = 42."
    assert "carry" in result["reasoning"]
    assert result["finish_reason"] == "stop token"
    assert [message["channel"] for message in result["messages"]] == ["analysis", "final"]
    assert len(result["tokens"]) == len(result["logprobs"]) == result["num_output_tokens"]
    first = result["logprobs"][0]
    assert first["token"] == first["top"][0]["token"] and len(first["top"]) == 2
    assert all(row["logprob"] <= 0 for row in result["logprobs"])


def test_the_same_seed_gives_the_same_text():
    texts = [answer("run", "tiny", "--raw", "-p", "It was", "--max-tokens", 30, "--seed", seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_stop_string_ends_the_answer():
    assert answer("run", "tiny", "-p", QUESTION, "--temperature", 0, "--stop", " = ") == "17 + 25\n"


def test_variables_set_settings_and_flags_win():
    variables = {"NIBBLE_TEMPERATURE": "0", "NIBBLE_MAX_TOKENS": "3"}
    short = json.loads(answer("run", "tiny", "-p", QUESTION, "--json", env=variables))
    assert short["num_output_tokens"] == 3 and short["finish_reason"] == "max tokens"
    longer = json.loads(answer("run", "tiny", "-p", QUESTION, "--json", "--max-tokens", 5, env=variables))
    assert longer["num_output_tokens"] == 5


def test_synthetic_weights_need_no_files():
    config = TINY / "config.json"
    done = nibble("run", f"synthetic:{config}", "--stats", "-p", "hello", "--max-tokens", 5)
    assert done.returncode == 0
    assert "5 output tokens" in done.stderr.decode()


def test_reasoning_has_a_budget():
    def thought(*flags):
        report = json.loads(answer("run", "tiny", "-p", "What is 17 + 25?", "--temperature", 0, "--json", *flags))
        assert report["answer"]
        return report["reasoning"]

    whole = thought()
    assert thought("--reasoning-budget", -1) == whole and thought("--reasoning-budget", 0) == ""
    assert whole.startswith(thought("--reasoning-budget", 4)) and 0 < len(thought("--reasoning-budget", 4)) < len(whole)
    assert "--reasoning-budget" in refusal("run", "tiny", "--raw", "-p", "x", "--reasoning-budget", 4)


def test_ctrl_c_ends_the_answer_and_keeps_what_there_is():
    command = [NIBBLE, "run", "tiny", "--raw", "-p", "Once", "--max-tokens", "20000"]
    environment = {**os.environ, "NIBBLE_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as run:
        run.stdout.read(1)  # waits until it has started
        run.send_signal(signal.SIGINT)
        _, told = run.communicate(timeout=60)
    assert run.returncode == 130
    assert b"cancelled" in told


def test_ctrl_c_does_not_wait_for_the_end_of_a_step():
    """A step of the reference backend takes seconds here. The promise is 200 ms; a busy machine gets a second."""
    command = [NIBBLE, "run", "tiny", "--backend", "reference", "-p", "word " * 3000]
    environment = {**os.environ, "NIBBLE_THREADS": "1"}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as run:
        assert run.stderr.readline().startswith(b"loading tiny: ")
        time.sleep(0.3)  # the first step has begun
        pressed = time.monotonic()
        run.send_signal(signal.SIGINT)
        answer, told = run.communicate(timeout=60)
        assert time.monotonic() - pressed < 1
    assert run.returncode == 130 and answer == b"" and told == b"(cancelled)\n"


def test_answers_are_held_to_a_schema_or_a_grammar_in_a_file(tmp_path):
    schema, grammar, wrong = tmp_path / "place.json", tmp_path / "reply.gbnf", tmp_path / "wrong.json"
    schema.write_text(json.dumps({"type": "object", "properties": {"city": {"enum": ["Paris", "Oslo"]}, "n": {"type": "integer", "minimum": 3, "maximum": 20}}, "required": ["city", "n"], "additionalProperties": False}))
    grammar.write_text('root ::= ("yes" | "no") "!"\n')
    wrong.write_text('{"$dynamicRef": "#x"}')
    for seed in range(5):
        place = json.loads(answer("run", "tiny", "-p", "Where?", "--json-schema", schema, "--seed", seed))
        assert place["city"] in ("Paris", "Oslo") and 3 <= place["n"] <= 20
        assert answer("run", "tiny", "-p", "Is it?", "--grammar", grammar, "--seed", seed).strip() in ("yes!", "no!")
        assert answer("run", "tiny", "--raw", "-p", "Is it?", "--grammar", grammar, "--seed", seed).strip() in ("yes!", "no!")
    told = answer("chat", "tiny", "--seed", "1", stdin=f"/set grammar {grammar}\nIs it?\n/set grammar\n".encode())
    assert "yes!" in told or "no!" in told
    assert f"{wrong}: schema: '$dynamicRef'" in refusal("run", "tiny", "-p", "Where?", "--json-schema", wrong)
    assert "exclude each other" in refusal("run", "tiny", "-p", "Where?", "--json-schema", schema, "--grammar", grammar)
    assert "cannot be opened" in refusal("run", "tiny", "-p", "Where?", "--grammar", tmp_path / "none")


def test_a_reader_that_has_gone_is_no_fault():
    command = f'"{NIBBLE}" inspect tiny --tensors | head -n 1'
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60)
    assert done.stdout.count(b"\n") == 1 and done.stderr == b""


# bad input


def copy_of_tiny(folder):
    copy = folder / "model"
    shutil.copytree(TINY, copy)
    return copy


def test_a_truncated_shard(tmp_path):
    copy = copy_of_tiny(tmp_path)
    shard = copy / "model-00001-of-00001.safetensors"
    os.truncate(shard, shard.stat().st_size - 1000)
    assert shard.name in refusal("run", copy, "-p", QUESTION)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_sink_that_is_not_a_number_is_named_at_load(tmp_path, backend):
    copy = copy_of_tiny(tmp_path)
    shard = copy / "model-00001-of-00001.safetensors"
    with open(shard, "r+b") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        sinks = json.loads(file.read(header_bytes))["model.layers.4.self_attn.sinks"]
        file.seek(8 + header_bytes + sinks["data_offsets"][0] + 2 * 6)
        file.write(b"\xc0\x7f")  # a NaN in bfloat16
    said = refusal("run", copy, "-p", QUESTION, "--backend", backend)
    assert "value 6 of tensor 'model.layers.4.self_attn.sinks' is nan; expected a number from -100 to 100" in said


def test_a_config_without_experts(tmp_path):
    copy = copy_of_tiny(tmp_path)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "num_local_experts": 0}))
    assert "num_local_experts" in refusal("run", copy, "-p", QUESTION)


def test_files_that_are_no_model(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("Dear diary,\n")
    assert "notes.txt" in refusal("run", text, "-p", QUESTION)
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(64))
    assert "general.architecture" in refusal("run", gguf, "-p", QUESTION)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert str(empty) in refusal("run", empty, "-p", QUESTION)
    assert "looked for" in refusal("run", "no-such-model", "-p", QUESTION)


def test_a_model_that_is_missing_is_guessed_and_its_download_explained():
    told = refusal("run", "tniy", "-p", QUESTION)
    assert ": did you mean tiny?" in told
    told = refusal("run", "openai/gpt-oss-120b", "-p", QUESTION, env={"HF_HUB_CACHE": "/nowhere"})
    assert "hf download openai/gpt-oss-120b --exclude '*/*'" in told and "pipx install huggingface_hub" in told
    assert "https://huggingface.co/openai/gpt-oss-120b/tree/main" in told and "nibble models" in told
    assert "did you mean" not in told


def test_prompts_that_can_not_be_run():
    assert "--context" in refusal("run", "tiny", "-p", "word " * 200, "--context", 100)
    assert "UTF-8" in refusal("run", "tiny", stdin=b"caf\xe9")
    assert "empty" in refusal("run", "tiny", stdin=b"")


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["run", "tiny", "-p", "x", "--temperature", "-1"], "a number from 0 to 2"),
        (["run", "tiny", "-p", "x", "--temprature", "1"], "unknown flag '--temprature': did you mean --temperature? See 'nibble run --help'"),
        (["run", "tiny", "-p", "x", "--max-tokns=3"], "unknown flag '--max-tokns=3': did you mean --max-tokens? See"),
        (["run", "tiny", "-p", "x", "--colour"], "unknown flag '--colour'. See 'nibble run --help'"),
        (["run", "tiny", "-p", "x", "--reasoning", "huge"], "low, medium, high"),
        (["run", "tiny", "-p", "x", "--backend", "tpu"], "cpu, reference"),
        # The release preset has no CUDA backend.
        (["run", "tiny", "-p", "x", "--backend", "cuda"], "--backend cuda"),
        (["run", "tiny", "-p", "x", "--mxfp4-layers", "qkv,ffn"], "moe, qkv, o, lm_head"),
        (["run", "tiny", "-p", "x", "--fp8-layers", "moe"], "qkv, o, lm_head"),
        (["run", "tiny", "-p", "x", "--fp8-layers", "all", "--mxfp4-layers", "o"], "both name o"),
        (["run", "tiny", "-p", "x", "--kv-dtype", "fp16"], "bf16, fp8"),
        (["inspect", "tiny", "--backend", "cpu", "--require", "qkv=mxfp4"], "bf16/f32"),
        (["inspect", "tiny", "--require", "attention=bf16"], "embed, rms_norm, qkv"),
        (["inspect", "tiny", "--require", "experts=mxfp8"], "f32, bf16, mxfp4, fp8"),
        (["run", "tiny", "-p", "x", "--context", "200000"], "131072"),
        (["run", "tiny", "-p", "x", "--logprobs", "2"], "--json"),
        (["run"], "MODEL"),
        (["rnu", "tiny"], "unknown command 'rnu': did you mean 'nibble run'?"),
        (["question", "tiny"], "run, chat, serve"),
        ([], "run, chat, serve"),
        (["eval", "tiny"], "--golden"),
        (["eval", "tiny", "--text", "a", "--tasks", "b"], "exactly one"),
        (["eval", "tiny", "--tasks", "b", "--compare"], "--text"),
        (["eval", "tiny", "--text", str(GOLDEN / "eval" / "prose.txt"), "--compare"], "needs a quantised setting"),
        (["run", "tiny", "-p", "x", "--backend", "reference", "--kv-dtype", "fp8"], "float32"),
        (["bench", "tiny", "-p", "512,x"], "separated by commas"),
        (["bench", "tiny", "-p", "0", "-n", "0"], "nothing to measure"),
        (["bench", "tiny", "--preset", "sparc"], "expected one of spark, spark-small"),
        (["bench", "tiny", "--preset", "spark:grid"], "expected runs among grid-bf16"),
        (["bench", "tiny", "--preset", "spark", "-p", "16"], "--prompt-lengths excludes --preset"),
        (["bench", "tiny", "--preset", "spark", "--fp8-layers", "all"], "--fp8-layers does not work with --preset"),
        (["bench", "tiny", "--draft-head", "models"], "--draft-head requires --preset"),
        (["predict", "tiny", "--gpu", "gb10", "--preset", "spark", "-p", "16"], "-p does not work with --preset"),
        (["predict", "tiny", "--gpu", "gb10", "--preset", "spark", "--count", "2"], "--count does not work with --preset"),
        (["bench", "tiny", "--preset", "spark", "--record", "/nowhere/a.jsonl"], "--record /nowhere/a.jsonl: cannot be written"),
        (["bench", "tiny", "--record", "/nowhere/a.jsonl"], "--record /nowhere/a.jsonl: cannot be written"),
        (["bench", "clients", "tiny", "--clients", "2", "--record", "/nowhere/a.jsonl"], "--record /nowhere/a.jsonl: cannot be written"),
        (["bench", "clients", "tiny", "--clients", "0"], "from 1 to 1024"),
        (["bench", "clients", "tiny", "-p", "16,32"], "--prompt-tokens: Value 16,32 not in range 1 to 1048576; see 'nibble bench clients --help'"),
        (["bench", "clients", "tiny", "-n", "1"], "--output-tokens: Value 1 not in range 2 to 1048576"),
        (["bench", "clients", "tiny", "-d", "5"], "unknown flag '-d'. See 'nibble bench clients --help'"),
        (["bench", "clients", "tiny", "--csv"], "unknown flag '--csv'. See 'nibble bench clients --help'"),
        (["bench", "--threads", "1", "clients", "tiny"], "--threads has to follow the command: nibble bench clients"),
        (["bench", "tiny", "clients", "tiny"], "MODEL has to follow the command: nibble bench clients"),
        (["bench", "tiny", "--clients", "2"], "use 'nibble bench clients MODEL --clients N,N...'"),
        (["bench", "tiny", "--replay", "a.jsonl"], "use 'nibble bench replay MODEL FILE'"),
        (["bench", "tiny", "--acceptance", "0.5"], "use 'nibble bench acceptance MODEL PROFILE...'"),
        (["bench", "--compare", "a", "b"], "use 'nibble bench compare A B'"),
        (["bench", "tiny", "--speculate=auto"], "random tokens can't be drafted; use 'nibble bench replay MODEL FILE'"),
        (["bench", "replay", "tiny"], "FILE is required; see 'nibble bench replay --help'"),
        (["bench", "acceptance", "tiny"], "PROFILE is required; see 'nibble bench acceptance --help'"),
        (["bench", "compare", "a"], "B is required; see 'nibble bench compare --help'"),
        (["bench", "compare", "/nowhere/a", "b"], "/nowhere/a: cannot be opened: No such file"),
        (["convert", "tiny", "out"], "synthetic:gpt-oss-20b"),
        (["verify"], "build it with the preset 'cuda'"),  # the release preset has no CUDA backend
        (["inspect", "tiny", "--kernels", "--gpu", "gb10"], "build it with the preset 'cuda'"),
        (["inspect", "tiny", "--kernels", "--gpu", "gb10", "--backend", "cpu"], "is only for GPUs, and the backend is cpu"),
        (["inspect", "tiny", "--gpu", "gb10"], "needs --kernels"),
        (["inspect", "tiny", "--kernels", "--rows", "16"], "needs --kernels and --gpu"),
        (["inspect", "tiny", "--kernels", "--gpu", "gb10", "--rows", "0"], "--rows"),
        (["predict", "tiny", "--gpu", "gb10"], "build it with the preset 'cuda'"),
        (["predict", "tiny", "--gpu", "gb10", "--backend", "cpu"], "is only for GPUs, and the backend is cpu"),
        (["predict", "tiny"], "--gpu"),
        (["predict", "tiny", "--gpu", "gb10", "--no-graphs"], "--no-graphs is not supported by predict"),
        (["predict", "tiny", "--gpu", "gb10", "-p", "0", "-n", "0"], "nothing to predict"),
        (["run", "tiny", "-p", "x", "--shared-budget", "100"], "one of 99, 163, 227"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", "--shared-budget", "99"], "is only for GPUs, and the backend is cpu"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", "--multiprocessors", "48"], "is only for GPUs, and the backend is cpu"),
        (["run", "tiny", "-p", "x", "--prompt-activations", "fp8"], "one of bf16, mxfp8x2, mxfp8, mxfp4"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", "--prompt-activations", "mxfp8"], "is only for GPUs, and the backend is cpu"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", "--no-graphs"], "--no-graphs is only for GPUs, and the backend is cpu"),
        (["run", "tiny", "-p", "x", "--graphs", "some"], "one of on, off"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", "-tp", "2"], "--tensor-parallel-size is only for GPUs, and the backend is cpu"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", "--gpus", "0,1"], "--gpus is only for GPUs, and the backend is cpu"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", "--tensor-split", "3,1"], "is only for GPUs, and the backend is cpu"),
        (["run", "tiny", "-p", "x", "--tensor-parallel-size", "0"], "a whole number from 1 to 64"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", "--nodes", "9"], "a whole number from 2 to 8"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", "--nodes", "2"], "each node needs --node-rank R, and --head"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", *NODES[:-1], "spark:7000"], "an address of node 0 and a port"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", *NODES[:-1], "0.0.0.0:7000"], "expected one address of node 0"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", *NODES], "--secret-file FILE, or the variable NIBBLE_SECRET"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", *NODES, "--secret-file", "/nowhere"], "/nowhere"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", *NODES, "--node-rank", "2"], "2 nodes are numbered from 0 to 1"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", *NODES, "--tensor-split", "1,1,1"], "3 parts for 2 nodes"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", *NODES, "--speculate", "model=tiny"], "use --speculate auto"),
        (["run", "tiny", "-p", "x", "--backend", "reference", *NODES], "the backend reference runs on one machine only; use --backend cpu or cuda"),
        (["run", "tiny", "-p", "x", "--head", "127.0.0.1:7000"], "--head needs --nodes"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", "--expert-parallel"], "--expert-parallel needs --nodes"),
        (["run", "tiny", "-p", "x", "--quantization", "awq"], "--quantization awq is not supported: --experts, --fp8-layers and --mxfp4-layers convert layers at load"),
        (["eval", "tiny", "--text", "a", "--compare", "--backend", "cpu", *NODES, "--secret-file", str(ROOT / "deploy" / "nibble@.service")], "runs two models at once"),
        (["run", "tiny", "-p", "x", "--backend", "cpu", *NODES, "--secret-file", str(TINY / "config.json")], "at least 16 bytes"),
        (["verify", "--backend", "cuda"], "--backend cuda"),
        (["verify", "--backend", "cpu"], "unit tests"),
        (["harmony", "render", "tiny", "--drop-analysis", "some"], "last-final"),
    ],
)
def test_flags_that_are_not_accepted_are_answered_with_what_is(arguments, said):
    assert said in refusal(*arguments)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--top-p", "0"], "a number above 0, up to 1"),
        (["--require", "attention=bf16"], "embed, rms_norm, qkv"),
        (["--require", "experts"], "OPERATION=WEIGHTS"),
        (["--backend", "tpu"], "cpu, reference"),
        (["--backend", "reference", "--experts-activations", "int8"], "not supported by the backend reference"),
        (["--fp8-layers", "moe"], "qkv, o, lm_head"),
    ],
)
def test_a_wrong_flag_is_refused_before_the_model_is_looked_for(arguments, said):
    assert said in refusal("run", "no-such-model", "-p", "x", *arguments)


def test_a_variable_that_a_command_does_not_use_is_said_to_be_unused():
    done = nibble("tokenize", "tiny", "--log-level", "info", stdin=b"Hello", env={"NIBBLE_TEMPERATURE": "0"})
    assert "NIBBLE_TEMPERATURE is set, but 'nibble tokenize' does not use it" in done.stderr.decode()
    done = nibble("run", "tiny", "-p", QUESTION, "--log-level", "info", env={"NIBBLE_TEMPERATURE": "0", "NIBBLE_API_KEY": "x"})
    assert "does not use it" not in done.stderr.decode() and "NIBBLE_API_KEY" not in done.stderr.decode()


def test_a_bad_variable_is_named():
    assert "NIBBLE_SEED" in refusal("run", "tiny", "-p", "x", env={"NIBBLE_SEED": "many"})


# help


def test_every_command_has_help_with_an_example():
    overview = answer("--help")
    assert "Exit codes" in overview and "NIBBLE_" in overview
    for command in ["run", "chat", "models", "inspect", "eval", "diff", "bench", "bench clients", "bench replay", "bench acceptance", "bench compare", "bench serve", "profile", "profile compare", "predict", "tune", "verify", "tokenize", "convert", "harmony render", "harmony parse"]:
        assert command.split()[0] in overview
        text = answer(*command.split(), "--help")
        assert f"nibble {command}" in text.split("Example", 1)[1], command


def test_version_says_what_was_built():
    text = answer("--version")
    assert text.startswith("nibble ") and "commit" in text and "instruction sets built: portable" in text


# inspect


def test_inspect_shows_a_model_that_no_machine_here_could_hold():
    report = json.loads(answer("inspect", "synthetic:gpt-oss-120b", "--json", "--context", 131072, "--sequences", 2))
    assert report["weight_bytes"] == 65_248_815_744
    assert report["num_parameters"] == 116_829_156_672
    assert report["bytes_by_format"]["MXFP4"] == 60_914_073_600
    # Keys and values of the full layers alone take 36,864 bytes per token.
    assert report["memory"]["kv_bytes"] >= 2 * 36_864 * 131_072
    # With an empty cache a token reads only these weights. Here it also reads the caches of the layers.
    weights = 5_002_907_904
    assert weights + 36_864 * 131_072 < report["bytes_per_decoded_token"] < weights + 36_864 * 131_072 + 10_000_000


def test_inspect_names_kernels_and_tensors():
    report = json.loads(answer("inspect", "tiny", "--json", "--kernels", "--tensors", "--isa", "portable"))
    assert len(report["tensors"]) == report["num_tensors"]
    assert sum(tensor["bytes"] for tensor in report["tensors"]) == report["weight_bytes"]
    assert all(kernel["kernel"] and kernel["reason"] for kernel in report["kernels"])
    assert all(kernel["rows"] == "any" and kernel["activations"] == "F32" for kernel in report["kernels"])
    assert answer("inspect", "synthetic:gpt-oss-20b", "--kernels", "--isa", "portable").count("portable") >= 1


@pytest.mark.parametrize("command", [["run", "tiny", "-p", QUESTION, "--max-tokens", 1], ["bench", "tiny", "-p", 1, "-n", 0]])
def test_the_log_lists_the_kernels_of_a_loaded_model_once(command):
    lines = nibble(*command, "--log-level", "info", "--isa", "portable").stderr.decode().splitlines()
    [first] = [place for place, line in enumerate(lines) if "kernels of tiny on backend cpu:" in line]
    kernels = [line.split("Z ", 1)[1] for line in lines[first + 1:first + 10]]
    assert kernels[1].startswith("qkv [768, 256]: weights BF16, activations F32, rows any: portable::")
    assert kernels[6].startswith("experts up [16, 256, 256]: weights MXFP4 (E8M0 per 32), activations F32, rows any: ")
    assert kernels[8].startswith("unembed [4096, 256]: ")


def test_inspect_counts_a_draft_head():
    head = ROOT / "models" / "tiny-gpt-oss-eagle3" / "specforge"
    plain = json.loads(answer("inspect", "tiny", "--json", "--backend", "cpu"))["memory"]
    with_head = json.loads(answer("inspect", "tiny", "--json", "--backend", "cpu", "--speculate", f"eagle3={head}"))["memory"]
    assert with_head["draft_head"] == f"{head} in MXFP4" and "draft_head" not in plain
    for part in ["own_weight_bytes", "kv_bytes", "workspace_bytes"]:
        assert with_head[part] > plain[part]


with_cuda = pytest.mark.skipif(not CUDA_NIBBLE.exists(), reason="the CUDA backend is not built")


def ask_of_gpu(command, gpu, *arguments):
    """Runs the program with the CUDA backend for a GPU that this machine does not have."""
    command = [CUDA_NIBBLE, *command, "synthetic:gpt-oss-120b", "--gpu", gpu, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def inspect_gpu(gpu, *arguments):
    return ask_of_gpu(["inspect", "--kernels"], gpu, *arguments)


def predict_gpu(gpu, *arguments):
    return ask_of_gpu(["predict"], gpu, *arguments)


@with_cuda
def test_kernels_are_listed_for_a_gpu_that_is_not_here():
    for gpu, said, many in [  # row ranges of the kernels for many tokens, on Hopper of wgmma kernels
        ("sm_121", "NVIDIA GB10 (sm_121), 48 multiprocessors", ["9-16", "17-"]),
        ("h200", "NVIDIA H200 (sm_90), 132", ["9-64", "65-255", "256-"]),
    ]:
        report = json.loads(inspect_gpu(gpu, "--json", "--fp8-layers", "qkv").stdout)
        assert said in report["gpu"]["name"]
        rows = [(row["operation"], row["weights"], row["rows"]) for row in report["kernels"]]
        assert [row[2] for row in rows if row[:2] == ("qkv", "FP8")] == ["1-2", "3-8", *many]
        assert len(rows) == len(set(rows))
    assert report["gpu"]["refusal"] is None
    listed = inspect_gpu("gb10").stdout
    assert "kernels on backend cuda, on NVIDIA GB10" in listed
    assert "experts up       MXFP4" in listed


@with_cuda
def test_prompts_may_take_block_scaled_activations():
    for gpu, by_twin in [("sm_121", False), ("h200", True)]:
        report = json.loads(inspect_gpu(gpu, "--json", "--prompt-activations", "mxfp8x2").stdout)
        rows = {(row["operation"], row["rows"]): row for row in report["kernels"]}
        for operation in ["experts up", "experts down"]:
            row = rows[operation, "17-"]
            assert row["activations"] == "MXFP8x2" and ("by twin" in row["kernel"]) == by_twin
        assert rows["experts down", "1-8"]["activations"] == rows["experts down", "9-16"]["activations"] == "BF16"
        assert {row["activations"] for (operation, _), row in rows.items() if operation in ("qkv", "project", "unembed")} == {"BF16"}
        flags = ["--prompt-activations", "mxfp8", "--mxfp4-layers", "qkv,o"]
        rows = {(row["operation"], row["rows"]): row for row in json.loads(inspect_gpu(gpu, "--json", *flags).stdout)["kernels"]}
        for operation in ["qkv", "project", "experts up"]:
            row = rows[operation, "17-"]
            assert row["activations"] == "MXFP8" and ("by twin" in row["kernel"]) == by_twin
        assert rows["unembed", "17-"]["activations"] == "BF16"


@with_cuda
def test_predict_counts_block_scaled_activations():
    def speed(*flags):
        return json.loads(predict_gpu("gb10", "-p", 8192, "-n", 0, "--json", *flags).stdout)["tests"][0]["tokens_per_second"]

    experts = [speed(*flags) for flags in ([], ["--prompt-activations", "mxfp8x2"], ["--prompt-activations", "mxfp8"])]
    assert experts[0] == experts[1] < experts[2]
    dense = ["--mxfp4-layers", "all"]
    assert speed(*dense, "--prompt-activations", "mxfp8") / speed(*dense) > experts[2] / experts[0]
    refused = predict_gpu("h200", "--prompt-activations", "mxfp8")
    assert refused.returncode == 2 and "has no block-scaled products" in refused.stderr


@with_cuda
def test_a_gpu_is_no_more_than_it_is():
    for arguments, said in [
        (["sm_42"], "the known GPUs are gb10"),
        (["gb10", "--shared-budget", 163], "at most 99 is possible"),
        (["gb10", "--multiprocessors", 49], "--multiprocessors 49"),
        (["h200", "--require", "qkv=mxfp4"], "--require"),
    ]:
        done = inspect_gpu(*arguments)
        assert done.returncode == 2 and said in done.stderr, done.stderr


@with_cuda
def test_speed_is_predicted_for_a_gpu_that_is_not_here():
    report = json.loads(predict_gpu("sm_121", "--json", "-p", 512, "-d", "0,16384", "--fp8-layers", "all").stdout)
    assert report["is_prediction"] and "NVIDIA GB10" in report["gpu"]["name"] and report["gpu"]["is_read_measured"]
    tests = {test["test"]: test for test in report["tests"]}
    assert list(tests) == ["pp512", "tg128", "pp512 @ d16384", "tg128 @ d16384"]
    for test in tests.values():
        rows = test["operations"]
        assert test["bytes_per_step"] == sum(row["bytes"] for row in rows)
        for row in rows:
            assert row["us"] == pytest.approx(max(row["memory_us"], row["issue_us"], row["products_us"]) + row["serial_us"])
        seconds = test["num_steps"] * sum(row["us"] for row in rows) / 1e6
        assert test["tokens_per_second"] == pytest.approx(test["num_tokens"] / seconds)
        assert 0 < test["share_of_read_bandwidth"] < 1
    # This machine reads 262 GB/s and a token reads 3.47 GB: at most 75 tok/s.
    assert 60 < tests["tg128"]["tokens_per_second"] < 75.6
    assert tests["tg128 @ d16384"]["tokens_per_second"] < tests["tg128"]["tokens_per_second"]


@with_cuda
def test_a_gpu_that_uses_the_hosts_memory_gets_smaller_steps_and_a_smaller_share():
    report = json.loads(predict_gpu("gb10", "--json", "-p", 8192, "-n", 0).stdout)
    assert report["max_batch_tokens"] == 4096 and report["tests"][0]["num_steps"] == 2
    assert report["memory"]["budget_bytes"] == pytest.approx(0.7 * report["memory"]["bytes"], rel=1e-6)
    report = json.loads(predict_gpu("gb10", "--json", "-p", 8192, "-n", 0, "--max-batch-tokens", 8192).stdout)
    assert report["max_batch_tokens"] == 8192


@with_cuda
def test_the_duration_of_a_preset_is_predicted():
    head, _, *rows = rows_of(predict_gpu("gb10", "--preset", "spark").stdout)
    assert head == ["run", "measures", "expected"] and [rows[0][0], rows[-1][0]] == ["grid-bf16", "prompt"]
    assert all(row[2].endswith(("s", "min")) for row in rows)
    [row] = rows_of(predict_gpu("gb10", "--preset", "spark:ladder-qkv-o").stdout)[2:]
    assert row in rows


@with_cuda
def test_without_a_gpu_verify_refuses_in_one_line():
    done = subprocess.run([CUDA_NIBBLE, "verify", "--model", "tiny"], capture_output=True, text=True, timeout=60)
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("this machine has a GPU")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("nibble: cuda: ") and done.stderr.count("\n") == 1


@with_cuda
def test_a_model_shared_by_several_gpus_is_predicted():
    one, two, fast = (
        json.loads(predict_gpu("h200", "--json", "-p", 0, *arguments).stdout)
        for arguments in [(), ("--count", 2), ("--count", 2, "--sum-latency", 3)]
    )
    assert one["num_gpus"] == 1 and "link" not in one and two["num_gpus"] == 2
    assert two["gpu"]["refusal"] is None and two["link"]["is_measured"]
    assert two["tests"][0]["sums_us"] == pytest.approx(fast["tests"][0]["sums_us"] + 72 * 9.7, abs=1)
    for shared in (two, fast):
        assert shared["tests"][0]["bytes_per_step"] < 0.52 * one["tests"][0]["bytes_per_step"]
    assert two["tests"][0]["tokens_per_second"] < one["tests"][0]["tokens_per_second"] < fast["tests"][0]["tokens_per_second"]
    both = json.loads(predict_gpu("h200", "--json", "-p", 0, "--count", 2, "--expert-parallel", "--batch", "1,64").stdout)
    for parts, whole in zip(both["tests"], both["tests_of_whole_experts"], strict=True):
        assert parts["test"] == whole["test"] and parts["sums_us"] == whole["sums_us"]
        assert whole["tokens_per_second"] < parts["tokens_per_second"]
    assert "whole experts on each GPU" in predict_gpu("h200", "--count", 2, "-p", 0, "--expert-parallel").stdout
    text = predict_gpu("gb10", "--count", 2, "-p", 0).stdout
    assert "2 GPUs, linked at 22 GB/s one way (expected: 200 GbE)" in text
    assert "nibble does not run the model there: a machine has one NVIDIA GB10; --nodes shares a model between machines" in text
    for arguments, said in [(("l40s", "--count", 2), "the link between that number of NVIDIA L40S is unknown"), (("h200", "--count", 3), "--count 3"), (("h200", "--count", 1, "--expert-parallel"), "needs several GPUs: --count N")]:
        done = predict_gpu(*arguments)
        assert done.returncode == 2 and said in done.stderr


@with_cuda
def test_predictions_are_near_the_records():
    command = [ROOT / "tools" / "predict_records", "--nibble", CUDA_NIBBLE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = {row[0]: [float(cell.removesuffix(" %")) for cell in row[1:]] for row in rows_of(done.stdout) if len(row) == 4 and row[1].isdigit()}
    most = {"prompts": (14, 30), "decoding, one sequence": (24, 15), "steps of several sequences": (14, 10), "servers": (14, 10), "fewer multiprocessors": (9, 15)}
    assert found.keys() == most.keys()
    for kind, (num_tests, median, worst) in found.items():
        assert (num_tests, abs(worst) < most[kind][1], median < 6) == (most[kind][0], True, True), (kind, median, worst)
    help_text = " ".join(subprocess.run([CUDA_NIBBLE, "predict", "--help"], capture_output=True, text=True, timeout=60).stdout.split())
    for kind in ["decoding, one sequence", "prompts"]:
        assert f"within {math.ceil(abs(found[kind][2]))} % (median {found[kind][1]:.0f} %)" in help_text


@with_cuda
def test_memory_is_predicted_as_a_server_would_divide_it():
    one, fp8, two = (
        json.loads(predict_gpu("h200", "--json", "-p", 0, "-n", 1, "--batch", "1,40,64", *arguments).stdout)["memory"]
        for arguments in [(), ("--kv-dtype", "fp8"), ("--count", 2)]
    )
    assert one["budget_bytes"] == pytest.approx(0.9 * one["bytes"], rel=1e-6) and one["context"] == 32768
    assert one["sequence_bytes"] == pytest.approx(32768 * 36864, rel=0.02) and fp8["sequence_bytes"] == pytest.approx(one["sequence_bytes"] / 2)
    assert [row["fits"] for row in one["batches"]] == [True, one["most_sequences"] >= 40, False] and 40 <= one["most_sequences"] < 64
    assert one["batches"][0]["free_tokens"] == pytest.approx(one["batches"][1]["free_tokens"] + 39 * 32768, rel=0.02)
    # Two GPUs hold the weights only once, so they have room for more than twice the number of sequences.
    assert two["weight_bytes"] < 0.53 * one["weight_bytes"] and two["most_sequences"] > 2.5 * one["most_sequences"]
    text = predict_gpu("rtx5090", "-p", 0, "-n", 1, "--batch", 8).stdout
    assert "0 fit" in text and "do not fit" in text and "nibble does not run the model there" in text


@with_cuda
def test_replicas_are_predicted_with_their_prefixes():
    arguments = ["-p", 1024, "-n", 128, "--batch", 16, "--prefix-tokens", 512, "--prefixes", 400, "--replicas", "1,8"]
    one, turns, prefix = json.loads(predict_gpu("h200", "--json", *arguments).stdout)["replicas"]
    assert [(row["num_replicas"], row["by_prefix"]) for row in (one, turns, prefix)] == [(1, False), (8, False), (8, True)]
    assert one["requests_per_second"] == pytest.approx(one["num_running"] / (one["prompt_seconds"] + one["answer_seconds"]))
    assert turns["requests_per_second"] == pytest.approx(8 * one["requests_per_second"])
    assert 0 < turns["found_share"] < prefix["found_share"] <= 1
    assert prefix["requests_per_second"] > turns["requests_per_second"]
    rows = [row for row in rows_of(predict_gpu("h200", *arguments).stdout) if row[2:3] == ["by prefix"]]
    assert len(rows) == 1 and rows[0][:2] == ["8", "16"]
    for wrong, said in [
        (["--replicas", 2, "-d", "0,64"], "one -p and one -n"),
        (["--replicas", 2, "-p", 0], "one -p and one -n"),
        (["--replicas", 2, "-p", 2000, "-n", 100, "--context", 2048], "requests of 2100 tokens"),
        (["--replicas", 2, "-p", 64, "--prefix-tokens", 65], "--prefix-tokens 65"),
        (["--prefixes", 2], "--replicas"),
        (["--batch", 0], "--batch"),
    ]:
        done = predict_gpu("h200", *wrong)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = predict_gpu("rtx5090", "--replicas", 2)
    assert done.returncode == 2 and "no sequence of" in done.stderr


@with_cuda
def test_a_prediction_says_that_it_is_one():
    text = predict_gpu("a10", "-p", 0).stdout
    assert text.startswith("A prediction, not a measurement: synthetic:gpt-oss-120b on NVIDIA A10")
    assert "nibble does not run the model there: " in text and "are free" in text  # 24 GB is too little
    assert "550 GB/s (expected" in text
    summary = [row for row in rows_of(text) if row[0] == "tg128"]
    assert len(summary) == 1 and float(summary[0][1]) < 550e9 / 5e9
    assert [row[-1] for row in rows_of(text) if row[0] == "unembed"] == ["memory"]


@with_cuda
def test_a_prediction_follows_the_flags_that_make_a_gpu_smaller():
    speeds = [json.loads(predict_gpu("h200", "--json", "-p", 0, "--multiprocessors", count).stdout)["tests"][0]["tokens_per_second"]
              for count in [132, 48]]
    assert speeds[0] > 1.2 * speeds[1]
    for arguments, said in [
        (["sm_42"], "the known GPUs are gb10"),
        (["gb10", "--multiprocessors", 49], "--multiprocessors 49"),
        (["gb10", "-d", 131072], "needs a context of"),
        (["h200", "--require", "qkv=mxfp4"], "--require"),
    ]:
        done = predict_gpu(*arguments)
        assert done.returncode == 2 and said in done.stderr, done.stderr


def test_operations_run_as_required():
    required = ["--require", "experts=mxfp4/f32,qkv=bf16,attend=bf16", "--backend", "cpu"]
    required += ["--experts-activations", "float"]
    assert answer("run", "tiny", "-p", QUESTION, "--temperature", 0, *required) == "17 + 25 = 42.\n"
    assert "kernels" not in json.loads(answer("inspect", "tiny", "--json", *required))
    refused = nibble("run", "tiny", "-p", QUESTION, "--require", "experts=bf16")
    assert refused.returncode == 2 and refused.stdout == b""
    assert b"--require 'experts=bf16'" in refused.stderr.splitlines()[-1]


def test_inspect_lists_files_that_are_no_whole_model(tmp_path):
    copy = copy_of_tiny(tmp_path)
    config = (TINY / "config.json").read_text()
    (copy / "config.json").write_text(config.replace('"hidden_size": 256', '"hidden_size": 64'))
    done = nibble("inspect", copy, "--tensors")
    assert done.returncode == 2
    assert b"model.embed_tokens.weight" in done.stdout and done.stderr.count(b"\n") == 1


# eval


@pytest.mark.parametrize("backend, num_prompts", [("cpu", 23), ("reference", 7)])  # the 8th has 1,000 tokens
def test_golden_data_agree(backend, num_prompts):
    done = nibble(
        "eval", "tiny", "--golden", GOLDEN / "golden.json", "--backend", backend, "--limit", num_prompts, "--json"
    )
    report = json.loads(done.stdout)
    outside = [prompt for prompt in report["prompts"] if not prompt["is_within"]]
    assert done.returncode == 0 and outside == []
    assert len(report["prompts"]) == num_prompts


def test_both_bounds_of_golden_data_are_stated_and_most_places_are_compared():
    golden = ["eval", "tiny", "--golden", GOLDEN / "golden.json", "--limit", 8, "--experts-activations", "int8"]
    report = json.loads(answer(*golden, "--json"))
    bounds = report["tolerance"]
    assert 0 < bounds["relative_l2"] < bounds["near_tie_relative_l2"]
    for prompt in report["prompts"]:
        assert prompt["relative_l2"] <= bounds["relative_l2"]
        assert prompt["near_tie_relative_l2"] <= bounds["near_tie_relative_l2"]
        assert prompt["from_rounded_reference"]["num_top_wrong"] == 0
    num_places = 5 * sum(prompt["num_tokens"] for prompt in report["prompts"])
    num_compared = sum(prompt["from_rounded_reference"]["num_top_compared"] for prompt in report["prompts"])
    assert num_compared > num_places / 2
    text = answer(*golden)
    assert f"{bounds['relative_l2']:.1e} relative L2, {bounds['near_tie_relative_l2']:.1e} at near ties" in text
    assert f"of {num_compared} places compared, of {num_places}" in text


@pytest.mark.parametrize("shape", ["a", "b"])
def test_golden_data_of_odd_shapes_agree(shape):
    folder = GOLDEN / "random" / shape
    report = answer("eval", folder, "--golden", folder / "golden.safetensors", "--backend", "reference")
    assert "OUTSIDE" not in report and report.count("same") == 2


def test_golden_data_of_other_weights_are_a_failed_check(tmp_path):
    made = tmp_path / "made"
    answer("convert", f"synthetic:{TINY / 'config.json'}", made)
    done = nibble("eval", made, "--golden", GOLDEN / "golden.json", "--limit", 2)
    assert done.returncode == 1
    assert b"OUTSIDE" in done.stdout


def test_tasks_are_solved_as_the_checkpoint_solves_them():
    report = json.loads(answer("eval", "tiny", "--tasks", GOLDEN / "eval" / "tasks.jsonl", "--limit", 60, "--json"))
    assert report["num_tasks"] == 60
    assert report["num_different_from_checkpoint"] <= 1


def test_perplexity_of_prose():
    report = json.loads(answer("eval", "tiny", "--text", GOLDEN / "eval" / "prose.txt", "--limit", 2, "--json"))
    assert report["num_windows"] == 2 and report["num_scored"] == 2 * 1023
    assert 40 < report["perplexity"] < 110  # 69.4 over the whole book


def test_formats_are_compared_with_the_unquantised_model():
    compare = ["eval", "tiny", "--text", GOLDEN / "eval" / "prose.txt", "--limit", 1, "--window", 256, "--compare"]
    fp8 = json.loads(answer(*compare, "--fp8-layers", "all", "--kv-dtype", "fp8", "--json"))
    assert fp8["formats"] == {"experts": "MXFP4", "qkv": "FP8", "o": "FP8", "lm_head": "FP8", "kv": "FP8"}
    assert fp8["num_windows"] == 1 and fp8["num_scored"] == 255
    mxfp4 = json.loads(answer(*compare, "--mxfp4-layers", "all", "--json"))
    assert mxfp4["formats"] == {"experts": "MXFP4", "qkv": "MXFP4", "o": "MXFP4", "lm_head": "MXFP4", "kv": "BF16"}
    # One more mantissa bit leaves a quarter of the squared error, and so of the divergence. FP8 has two bits
    # more than MXFP4.
    assert 0 < fp8["mean_kl"] < mxfp4["mean_kl"] / 4
    assert fp8["mean_kl"] < fp8["p99_kl"]
    assert 1 > fp8["top1_agreement"] > mxfp4["top1_agreement"] > 0.5
    assert fp8["unquantised_perplexity"] == mxfp4["unquantised_perplexity"] != fp8["perplexity"]
    assert "KL divergence" in answer(*compare, "--fp8-layers", "o")


def test_conversions_are_told_and_kernels_say_their_formats():
    formats = ["--fp8-layers", "qkv,lm_head", "--mxfp4-layers", "o", "--kv-dtype", "fp8"]
    told = nibble("run", "tiny", "-p", QUESTION, "--temperature", 0, "--log-level", "info", *formats)
    assert told.returncode == 0 and b"42" in told.stdout
    lines = [line for line in told.stderr.decode().splitlines() if " bytes to " in line]
    assert {"qkv: BF16 to FP8", "o: BF16 to MXFP4", "lm_head: BF16 to FP8"} == {
        line.split(" ", 2)[2].split(",")[0] for line in lines  # after the level and the time
    }
    report = json.loads(answer("inspect", "tiny", "--kernels", "--json", "--isa", "portable", *formats))
    weights = {row["operation"]: row["weights"] for row in report["kernels"] if row["operation"] != "attend"}
    assert (weights["qkv"], weights["project"], weights["unembed"]) == ("FP8", "MXFP4", "FP8")
    assert {row["weights"] for row in report["kernels"] if row["operation"].startswith("attend")} == {"FP8"}
    plain = json.loads(answer("inspect", "tiny", "--json", "--isa", "portable"))
    assert report["memory"]["kv_bytes"] == plain["memory"]["kv_bytes"] / 2
    assert report["memory"]["own_weight_bytes"] > plain["memory"]["own_weight_bytes"] == 0
    assert report["bytes_by_operation"]["qkv"] < 0.6 * plain["bytes_by_operation"]["qkv"]
    bench = answer("bench", "tiny", "-p", 16, "-n", 0, "-r", 1, *formats)
    assert "qkv (FP8)" in bench and "unembed (FP8)" in bench


# bench


def test_bench_measures_prefill_and_decode():
    report = json.loads(answer("bench", "tiny", "-p", 16, "-n", 4, "-d", "0,40", "-r", 2, "--json"))
    assert report["command_line"].endswith("--repetitions 2 --json")
    assert report["threads"] == 1 and report["backend"] == "cpu" and report["kernels"]
    bandwidth = report["machine"]["read_bytes_per_second"]
    assert bandwidth > 1e8
    assert [test["test"] for test in report["tests"]] == ["pp16", "tg4", "pp16 @ d40", "tg4 @ d40"]
    for test in report["tests"]:
        speed = test["tokens_per_second"]
        assert len(speed["samples"]) == 2
        assert 0 < min(speed["samples"]) <= speed["median"] <= max(speed["samples"])
        assert test["num_steps"] == (1 if test["kind"] == "prefill" else 4)
        bytes_per_second = speed["mean"] * test["bytes_per_step"] * test["num_steps"] / test["num_tokens"]
        assert test["bytes_per_second"] == pytest.approx(bytes_per_second)
        assert test["share_of_read_bandwidth"] == pytest.approx(bytes_per_second / bandwidth)
    assert 1e6 < report["tests"][1]["bytes_per_step"] < report["weight_bytes"]


def test_a_preset_of_bench_runs_every_format_and_appends_a_record_after_each(tmp_path):
    file = tmp_path / "spark.jsonl"
    text = answer("bench", "tiny", "--preset", "spark-small", "-r", 1, "--record", file)
    records = [json.loads(line) for line in file.read_text().splitlines()]
    runs = [record["preset_run"].removeprefix("spark-small: ") for record in records]
    assert runs == ["grid-bf16", "grid-mxfp4", "ladder-experts", "ladder-qkv-o", "ladder-lm-head", "ladder-fp8-kv", "prompt"]
    assert [line.removeprefix("## ").split(":")[0] for line in text.splitlines() if line.startswith("## ")] == runs
    weights = [{row["operation"]: row["weights"] for row in record["kernels"]} for record in records]
    assert [(row["qkv"], row["unembed"], row["attend"]) for row in weights[2:6]] == [
        ("BF16", "BF16", "BF16"), ("MXFP4", "BF16", "BF16"), ("MXFP4", "MXFP4", "BF16"), ("MXFP4", "MXFP4", "FP8")]
    assert len(records[0]["tests"]) == 2 * (2 + 2) and [load["num_clients"] for load in records[2]["loads"]] == [1, 2]
    assert all(seconds > 0 for load in records[-1]["loads"] for seconds in load["first_token_seconds"])


def test_a_run_of_a_preset_can_be_done_alone(tmp_path):
    record = json.loads(answer("bench", "tiny", "--preset", "spark-small:prompt", "-r", 1, "--json"))
    assert record["preset_run"] == "spark-small: prompt" and record["num_prompt_tokens"] == 32


@pytest.mark.parametrize("format", ["bf16", "fp8"])
def test_a_preset_refuses_every_format_of_the_cache_that_is_named(format):
    preset = ("bench", "tiny", "--preset", "spark-small:prompt")
    assert "--kv-dtype does not work with --preset" in refusal(*preset, "--kv-dtype", format)
    assert "--kv-dtype does not work with --preset" in refusal(*preset, env={"NIBBLE_KV_DTYPE": format})


def test_bench_prints_csv():
    header, *rows = answer("bench", "tiny", "-p", 16, "-n", 4, "-r", 1, "--csv").splitlines()
    assert [row.split(",")[header.split(",").index("test")] for row in rows] == ["pp16", "tg4"]


def test_tune_leaves_a_file_that_other_commands_obey(tmp_path):
    kept = tmp_path / "below" / "tuning.json"
    table = answer("tune", "tiny", "-r", 1, "--tuning", kept, "--threads", 2)
    ((machine, entry),) = json.loads(kept.read_text()).items()
    ((model, tuning),) = entry["models"].items()
    assert entry["nibble"].startswith("nibble ") and model.startswith("hidden 256, intermediate 128, 8 heads of 64")
    assert tuning["threads"] == 2 and tuning["panel_rows"] % 16 == 0
    for knob, value in tuning.items():
        if knob == "tile_from_tokens" and value == 0: continue  # these kernels use no tiles here
        assert knob == "threads" or any(knob in line and f" {value} " in line for line in table.splitlines())
    write = lambda build=entry["nibble"], **changes: kept.write_text(
        json.dumps({machine: {"nibble": build, "models": {model: tuning | changes}}}))
    write(threads=1, panel_rows=48)
    measured = lambda *more: json.loads(answer("bench", "tiny", "-p", 0, "-n", 1, "-r", 1, "--json", *more))
    assert measured("--tuning", kept)["threads"] == 1
    assert measured("--tuning", kept)["tuning"]["panel_rows"] == 48
    assert measured("--tuning", kept, "--threads", 3)["threads"] == 3
    assert measured("--tuning", "off")["tuning"] is None
    assert measured("--tuning", kept, "--mxfp4-layers", "qkv")["tuning"] is None  # not measured with these formats
    write("nibble 0.0.1, commit 0", panel_rows=48)
    done = nibble("run", "tiny", "-p", QUESTION, "--max-tokens", 1, "--tuning", kept)
    assert done.returncode == 0
    assert b"ignored, because nibble 0.0.1, commit 0 measured it and this is nibble " in done.stderr
    write(panel_rows=33)
    assert "panel_rows must be a whole number from 16 to 192, a multiple of 16" in refusal(
        "run", "tiny", "-p", "x", "--tuning", kept)
    assert "nothing to tune" in refusal("tune", "tiny", "--backend", "reference")
    assert "--rows and --record are only for --backend cuda" in refusal("tune", "tiny", "--record", tmp_path / "a.jsonl")


def test_diff_names_the_first_layer_and_operation_that_differ(tmp_path):
    exact = ("--experts-activations", "float", "--tolerance", 0.015)
    assert "- no difference above 0.015" in answer("diff", "tiny", *exact)
    result = nibble("diff", "tiny", *exact, "--fp8-layers", "o")
    assert result.returncode == 1 and b"- first difference above 0.015: layer 0 project" in result.stdout

    # One weight differs in one build only: layer 3's attention output is multiplied by -1.
    damaged = tmp_path / "damaged"
    shutil.copytree(ROOT / "models" / "tiny-gpt-oss", damaged)
    name = "model.layers.3.self_attn.o_proj.weight"
    shard = damaged / json.loads((damaged / "model.safetensors.index.json").read_text())["weight_map"][name]
    data = bytearray(shard.read_bytes())
    length = int.from_bytes(data[:8], "little")
    first, end = (8 + length + at for at in json.loads(data[8 : 8 + length])[name]["data_offsets"])
    for at in range(first + 1, end, 2):  # the byte with the sign of each BF16
        data[at] ^= 0x80
    shard.write_bytes(data)
    states = tmp_path / "states.safetensors"
    assert answer("diff", damaged, "--save", states) == ""
    assert "- no difference above 0\n" in answer("diff", damaged, "--against", states, "--tolerance", 0)
    result = nibble("diff", "tiny", "--against", states)
    assert result.returncode == 1 and b": layer 3 project, " in result.stdout
    assert result.stdout.endswith(b"; before it layer 3 attend, 0.00e+00\n")
    result = nibble("diff", "tiny", "--by-layer", "--save", tmp_path / "layers", "--against", states)
    assert result.returncode == 2 and b"use --by-layer for both" in result.stderr


def test_bench_asks_the_model_a_question_after_its_tests(tmp_path):
    measure = ("bench", "tiny", "-p", 16, "-n", 0, "-r", 1)
    assert '- coherence: right: "What is 17 + 25?" is answered with "17 + 25 = 42."' in answer(*measure)
    assert json.loads(answer(*measure, "--fp8-layers", "all", "--json"))["coherence"]["is_right"]
    assert "- coherence: not checked: --tokenizer bytes" in answer(*measure, "--tokenizer", "bytes")
    assert "- coherence: not checked: the context is too short" in answer(*measure, "--context", 64)
    config = str(ROOT / "models" / "tiny-gpt-oss" / "config.json")
    assert "- coherence: not checked: the weights are random" in answer("bench", f"synthetic:{config}", *measure[2:])


def test_profile_shows_every_part_of_a_step():
    report = json.loads(answer("profile", "tiny", "-r", 30, "--json"))
    assert {part["part"] for part in report["parts"]} >= {"dense", "experts", "attention", "gaps"}
    assert all(part["us"] > 0 for part in report["parts"] if part["launches"])
    assert report["step_us"] > 0 and report["step_us_standard_deviation"] > 0


def test_profile_shows_every_kernel_of_a_step():
    report = json.loads(answer("profile", "tiny", "-r", 30, "--json"))
    kernels = {row["kernel"]: row for row in report["kernel_times"]}
    assert kernels.keys() >= {"embed", "qkv", "attend", "project", "route", "experts", "unembed"}
    layers = 6
    assert [kernels[name]["launches"] for name in ("qkv", "experts", "unembed")] == [layers, layers, 1]
    assert all(0 < row["launch_us"]["median"] <= row["launch_us"]["p99"] for row in kernels.values())
    assert sum(row["bytes"] for row in kernels.values()) == sum(part["bytes"] for part in report["parts"])
    table = rows_of(answer("profile", "tiny", "-r", 3, "--kernels"))
    assert ["qkv", "dense"] in [row[:2] for row in table]


def test_profiles_of_two_formats_are_compared_by_part_and_by_kernel(tmp_path):
    plain, fp8 = tmp_path / "plain.json", tmp_path / "fp8.json"
    plain.write_text(answer("profile", "tiny", "-r", 3, "--json"))
    fp8.write_text(answer("profile", "tiny", "-r", 3, "--json", "--fp8-layers", "qkv"))
    report = answer("profile", "compare", plain, fp8)
    assert {row[0] for row in rows_of(report)} >= {"dense", "experts", "sum", "unrecorded step", "qkv", "attend"}
    assert re.search(r"^- qkv: .*\(BF16, .* in A, .*\(FP8, .* in B$", report, re.M)
    fp8.write_text(answer("profile", "tiny", "-r", 1, "-d", 8, "--json"))
    assert "the depth is 0 and 8" in refusal("profile", "compare", plain, fp8)
    assert "MODEL has to follow the command: nibble profile compare" in refusal("profile", "tiny", "compare", plain, fp8)
    assert "MODEL is required" in refusal("profile", "-r", 1)


def test_profile_shows_what_a_draft_head_adds_to_a_step():
    head = ROOT / "models" / "tiny-gpt-oss-eagle3" / "specforge"
    report = json.loads(answer("profile", "tiny", "-r", 30, "--json", "--speculate", f"eagle3={head}"))
    drafts = next(part for part in report["parts"] if part["part"] == "draft head")
    assert report["num_drafts"] == 3 and drafts["us"] > 0 and drafts["launches"] > 0
    # fc, k and v run once, the layer and the unembedding 3 times, in blocks of 32 elements with 17 bytes.
    elements = 256 * 768 + 2 * 128 * 512 + 3 * (768 * 512 + 256 * 512 + 3 * 1024 * 256 + 1024 * 256)
    assert drafts["bytes"] == elements // 32 * 17
    assert "leave out the draft model" in refusal("profile", "tiny", "--speculate", "model=tiny")


def test_profile_says_which_backends_can():
    result = nibble("profile", "tiny", "--backend", "reference")
    assert result.returncode == 2 and b"does not support profile" in result.stderr


def rows_of(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


def test_bench_prints_a_table():
    text = answer("bench", "tiny", "-p", 16, "-n", 4, "-r", 1, "--backend", "reference")
    head, _, *rows = rows_of(text)
    assert head[0] == "test" and [row[0] for row in rows] == ["pp16", "tg4"]
    assert "commit" in text and "GB/s" in text
    assert all(len(line) <= 100 for line in text.splitlines() if line.startswith("|"))


def test_bench_of_several_lengths_and_depths_prints_one_grid():
    head, _, *rows = rows_of(answer("bench", "tiny", "-p", "16,32", "-n", "2,4", "-d", "0,40,80", "-r", 1))
    assert head == ["depth", "pp16", "pp32", "tg2 (share)", "tg4 (share)"]
    assert [row[0] for row in rows] == ["0", "40", "80"]
    assert all(float(cell.split()[0]) > 0 for row in rows for cell in row[1:])


def test_records_of_bench_are_compared_and_other_work_is_refused(tmp_path):
    files = {}
    for name, flags in {"a": [], "b": [], "other": ["--backend", "reference"]}.items():
        files[name] = tmp_path / f"{name}.jsonl"
        table = answer("bench", "tiny", "-p", 16, "-n", 2, "-r", 4, "--record", files[name], *flags)
        assert [row[0] for row in rows_of(table)[2:]] == ["pp16", "tg2"]
    text = answer("bench", "compare", files["a"], files["b"])
    assert [row[0] for row in rows_of(text)[2:]] == ["pp16", "tg2"]
    assert all(row[-1] in ("within the noise", "B is faster", "B is slower") for row in rows_of(text)[2:])
    # A factor of 50 is more than any noise, even on a busy machine.
    run = json.loads(files["b"].read_text())
    for test in run["tests"]:
        test["tokens_per_second"]["samples"] = [50 * sample for sample in test["tokens_per_second"]["samples"]]
    files["b"].write_text(json.dumps(run))
    assert {row[-1] for row in rows_of(answer("bench", "compare", files["a"], files["b"]))[2:]} == {"B is faster"}
    assert nibble("bench", "compare", files["a"], files["b"], "--fail-on", "slower").returncode == 0
    gate = nibble("bench", "compare", files["b"], files["a"], "--fail-on", "slower")
    assert gate.returncode == 1 and gate.stderr == b"B is slower: pp16, tg2\n" and b"| B is slower" in gate.stdout
    assert nibble("bench", "compare", files["b"], files["a"]).returncode == 0
    said = refusal("bench", "compare", files["a"], files["other"])
    assert "not comparable: the backend is cpu and reference" in said
    assert "unexpected argument" in refusal("bench", "compare", "tiny", files["a"], files["b"])
    assert "unknown flag '--threads'" in refusal("bench", "compare", files["a"], files["b"], "--threads", 2)


def test_bench_runs_requests_of_many_clients_without_a_server(tmp_path):
    table = answer("bench", "clients", "tiny", "--clients", "1,3", "-p", 16, "-n", 4, "-r", 2, "--record", tmp_path / "a.jsonl")
    rows = rows_of(table)[2:]
    assert [row[0] for row in rows] == ["1", "3"]
    assert all(float(cell) > 0 for row in rows for cell in (row[1], row[3]))
    run = json.loads((tmp_path / "a.jsonl").read_text())
    assert (run["num_prompt_tokens"], run["num_output_tokens"], run["requests_of_client"]) == (16, 4, 4)
    assert [(load["num_clients"], len(load["tokens_per_second"])) for load in run["loads"]] == [(1, 2), (3, 2)]
    # A CPU has no device clock.
    assert "idle" not in table and [load["device_idle_seconds"] for load in run["loads"]] == [None, None]


def test_a_flag_of_a_command_of_bench_wins_over_the_variable():
    measure = ("bench", "clients", "tiny", "-p", 8, "-n", 2, "-r", 1, "--json")
    line = "nibble bench clients tiny --prompt-tokens 8 --output-tokens 2 --repetitions 1 --json"
    wrong = {"NIBBLE_THREADS": "none"}
    assert json.loads(answer(*measure, "--threads", 1, env=wrong))["command_line"] == f"{line} --threads 1"
    assert "NIBBLE_THREADS 'none'" in refusal(*measure, env=wrong)
    assert json.loads(answer(*measure))["command_line"] == f"NIBBLE_THREADS=1 {line}"


@pytest.mark.parametrize("command", [["bench", "tiny", "-p", 16, "-n", 2, "-r", 2], ["profile", "tiny", "-r", 3]])
def test_a_record_says_when_by_what_and_on_what_it_was_measured(command):
    [line] = answer(*command, "--json").splitlines()
    record = json.loads(line)
    began = datetime.datetime.strptime(record["date"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    assert datetime.timedelta(0) <= datetime.datetime.now(datetime.timezone.utc) - began < datetime.timedelta(minutes=10)
    assert f"nibble {command[0]}" in record["command_line"]
    assert record["num_warmups"] == 1 and record["kernels"][0].keys() >= {"operation", "weights", "activations", "kernel"}
    assert record["nibble"].keys() >= {"commit", "dirty", "build", "compiler"}
    machine = record["machine"]
    assert machine["num_cores"] == len(os.sched_getaffinity(0)) and machine["memory_bytes"] > 1e8 and machine["device"] is None
    assert machine.keys() >= {"cpu", "cache_bytes", "cpu_mhz", "highest_cpu_mhz", "read_bytes_per_second"}
    assert isinstance(record["contradictions"], list)


@pytest.mark.parametrize("command", [["bench", "tiny", "-p", 16, "-n", 2], ["bench", "clients", "tiny", "-p", 8, "-n", 2], ["profile", "tiny"],
                                     ["bench", "acceptance", "tiny", "0.5", "-n", 8]])
@pytest.mark.parametrize("warmups", [0, 3])
def test_warm_ups_are_run_as_often_as_the_flag_says(command, warmups):
    assert json.loads(answer(*command, "-r", 2, "--warmup", warmups, "--json"))["num_warmups"] == warmups


def test_bench_and_profile_state_the_operations_of_matrix_products():
    record = json.loads(answer("bench", "tiny", "-p", 64, "-n", 2, "-r", 2, "--json"))
    prompt, decode = record["tests"]
    # A token takes twice the active parameters. Of a prompt, only the last token multiplies by lm_head.
    active = json.loads(answer("inspect", "tiny", "--json"))["num_active_parameters"]
    assert prompt["flops_per_step"] / 64 == pytest.approx(2 * (active - 4096 * 256), rel=0.1)
    assert decode["flops_per_step"] == pytest.approx(2 * active, rel=0.1)
    for test in prompt, decode:
        tokens = 64 if test is prompt else 1
        assert test["flops_per_second"] == pytest.approx(test["flops_per_step"] / tokens * test["tokens_per_second"]["mean"])
    table = answer("bench", "tiny", "-p", 16, "-n", 2, "-d", "0,32", "-r", 2)
    assert re.search(r"\n- matrix products of prompts: pp16 \S+ TFLOP/s, pp16 @ d32 \S+ TFLOP/s\n", table)
    profile = json.loads(answer("profile", "tiny", "-p", 64, "-r", 2, "--json"))
    assert sum(part["flops"] for part in profile["parts"]) == prompt["flops_per_step"]
    assert "TFLOP/s" in answer("profile", "tiny", "-r", 2)


@pytest.mark.parametrize("kind", [["--text", GOLDEN / "eval" / "prose.txt", "--window", 64],
                                  ["--text", GOLDEN / "eval" / "prose.txt", "--window", 64, "--compare", "--fp8-layers", "qkv"],
                                  ["--tasks", GOLDEN / "eval" / "tasks.jsonl"], ["--golden", GOLDEN / "golden.json"]])
def test_a_result_of_eval_says_by_what_and_on_what_it_was_made(kind):
    record = json.loads(answer("eval", "tiny", *kind, "--limit", 1, "--json"))
    assert record["date"].endswith("Z") and record["model"] == "tiny" and record["backend"] == "cpu"
    assert f"nibble eval tiny {kind[0]}" in record["command_line"]
    assert record["nibble"].keys() >= {"commit", "dirty", "build", "compiler"}
    assert record["machine"]["num_cores"] == len(os.sched_getaffinity(0))
    formats = {row["operation"]: row["weights"] for row in record["kernels"]}
    assert formats["experts up"] == "MXFP4" and formats["qkv"] == ("FP8" if "--fp8-layers" in kind else "BF16")


# tokenize and harmony


def test_tokenize_goes_both_ways():
    ids = [int(token) for token in answer("tokenize", "tiny", stdin="Grüße, world".encode()).split()]
    lines = [{"text": "Grüße, world"}, {"ids": ids}]
    stdin = "\n".join(map(json.dumps, lines)).encode()
    there, back = answer("tokenize", TINY / "tokenizer.json", "--jsonl", stdin=stdin).splitlines()
    assert json.loads(there) == {"ids": ids}
    assert json.loads(back) == {"text": "Grüße, world"}


def test_control_tokens_in_a_text_are_ordinary_unless_asked_for():
    assert len(answer("tokenize", "tiny", stdin=b"<|start|>").split()) > 1
    assert answer("tokenize", "tiny", "--special", stdin=b"<|start|>").split() == ["4072"]


def test_bad_lines_are_named():
    assert "line 2" in refusal_after_output("tokenize", "tiny", "--jsonl", stdin=b'{"text": "a"}\nnonsense\n')
    assert "4084" in refusal_after_output("tokenize", "tiny", "--jsonl", stdin=b'{"ids": [4085]}')
    assert "4084" in refusal_after_output("tokenize", "tiny", "--jsonl", stdin=b'{"ids": [99999999999999999999]}')


def refusal_after_output(*arguments, **more):
    done = nibble(*arguments, **more)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    return done.stderr.decode()


def test_a_conversation_is_rendered_and_parsed_back():
    question = {"role": "user", "content": "Hi"}
    reply = {"role": "assistant", "channel": "final", "content": "Hello."}
    line = json.dumps({"messages": [question, reply]}).encode()
    rendered = json.loads(answer("harmony", "render", "tiny", "--jsonl", "--no-generation-prompt", stdin=line))
    assert rendered["text"] == (
        "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|end|>"
    )
    ids = " ".join(map(str, rendered["tokens"]))
    assert answer("harmony", "render", "tiny", "--no-generation-prompt", stdin=line) == f"{rendered['text']}\n{ids}\n"
    parsed = json.loads(answer("harmony", "parse", "tiny", stdin=json.dumps({"tokens": rendered["tokens"]}).encode()))
    assert [message["role"] for message in parsed["messages"]] == ["user", "assistant"]
    assert parsed["messages"][1]["content"] == [{"type": "text", "text": "Hello."}]


@pytest.mark.parametrize("tokens", ["[4085]", "[4294967297]", "[-1]", "[1.5]", "5"])
def test_tokens_to_parse_that_are_none_are_refused(tokens):
    assert "token" in refusal_after_output("harmony", "parse", "tiny", stdin=f'{{"tokens": {tokens}}}'.encode())


# chat


class Terminal:
    """A chat in its own terminal."""

    def __init__(self, *arguments, **environment):
        environment = {"NIBBLE_THREADS": "1", "NIBBLE_HISTORY": "off", "TERM": "xterm"} | environment
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
            os.execve(NIBBLE, [NIBBLE, "chat", "tiny", *arguments], environment)
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text, seconds=60):
        """Reads until `text` arrives. Returns what was read before it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, f"{text!r} did not come; this came: {self.seen!r}"
            try:
                self.seen += os.read(self.fd, 4096).decode(errors="replace")
            except OSError:  # the other side has closed
                assert text in self.seen, f"{text!r} did not come; this came: {self.seen!r}"
        before, self.seen = self.seen.split(text, 1)
        return before

    def exit_code(self, seconds=60):
        end = time.monotonic() + seconds
        while (ended := os.waitpid(self.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"the chat goes on; this came: {self.seen!r}")
            time.sleep(0.01)
        return os.waitstatus_to_exitcode(ended[1])


def test_a_chat_remembers_obeys_and_ends(tmp_path):
    chat = Terminal("--temperature", "0", "--stats")
    chat.expect("> ")
    chat.type(QUESTION + "\n")
    shown = chat.expect("tok/s")
    assert "\x1b[2m" in shown and "17 + 25 = 42." in shown  # reasoning is dimmed
    chat.expect("> ")
    chat.type("/fold\n")
    chat.expect("hidden")
    chat.type("Add 3 and 6.\n")
    assert "9" in chat.expect("tok/s")
    chat.type(f"/save {tmp_path}/talk.json\n")
    chat.expect("4 messages written")
    chat.type("/nonsense\n")
    chat.expect("/help")
    chat.type("/quit\n")
    assert chat.exit_code() == 0
    saved = json.loads((tmp_path / "talk.json").read_text())
    assert [message["role"] for message in saved["messages"]][-1] == "assistant"


def test_ctrl_c_stops_the_answer_and_not_the_chat(tmp_path):
    # The schema demands a million characters: no answer ends before ctrl-C, even on a busy machine.
    schema = tmp_path / "long.json"
    schema.write_text(json.dumps({"type": "string", "minLength": 1000000}))
    chat = Terminal("--temperature", "1", "--seed", "1", "--reasoning", "high", "--json-schema", str(schema))
    chat.expect("> ")
    chat.type("\x03")  # at the prompt
    chat.expect("ends the program")
    chat.type("Tell me a story about a fox.\n")
    chat.expect("\x1b[2m")
    chat.type("\x03")
    chat.expect("cancelled")
    chat.expect("> ")
    chat.type("/reset\n")
    chat.expect("new conversation")
    # Waits until the editor reads, because until then the terminal treats input as text and ignores ctrl-D.
    chat.expect("> ")
    chat.type("\x04")
    assert chat.exit_code() == 0


def test_a_chat_can_be_piped():
    text = answer("chat", "tiny", "--temperature", 0, stdin=(QUESTION + "\n/history\n").encode())
    assert "17 + 25 = 42." in text and f"> {QUESTION}" in text
