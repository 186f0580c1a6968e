"""Servers in turns under the load of `nibble bench serve`, for tools/compare_engines."""
import collections
import contextlib
import json
import os
import pathlib
import shlex
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request

ADDRESS = "--host 127.0.0.1 --port {port}"
KNOWN = {
    "nibble": "{nibble} serve {model} " + ADDRESS,
    "vllm": "vllm serve {model} " + ADDRESS,
    "sglang": "python3 -m sglang.launch_server --model-path {model} " + ADDRESS,
    "llama.cpp": "llama-server -m {model} " + ADDRESS,
}
TEXT_TOKENS = "199998"  # ids of gpt-oss that all engines accept in prompts
# Title, value in a load of the record, and whether more is better.
FIGURES = [
    ("output tok/s", lambda load: load["output_tokens_per_second"], True),
    ("tok/s/user", lambda load: load["interactivity"], True),
    ("TTFT p50 ms", lambda load: load["ttft_seconds"] and 1e3 * load["ttft_seconds"]["p50"], False),
    ("TTFT p99 ms", lambda load: load["ttft_seconds"] and 1e3 * load["ttft_seconds"]["p99"], False),
]


class Absent(Exception):
    """The server can't be started here."""


def read_server(text):
    """Returns name and command template of NAME or NAME=COMMAND."""
    name, _, command = text.partition("=")
    if not command and name not in KNOWN:
        raise SystemExit(f"--server '{text}': expected one of {', '.join(KNOWN)}, or NAME=COMMAND with {{port}} in it")
    return name, command or KNOWN[name]


def wait_until_ready(process, url, seconds, log):
    end = time.time() + seconds
    while True:
        with contextlib.suppress(OSError):  # refused, or a status such as 503
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        log.seek(0)
        last = (log.read().decode(errors="replace").strip().splitlines() or ["no output"])[-1]
        if process.poll() is not None:
            raise Absent(f"ended with status {process.returncode}: {last}")
        if time.time() > end:
            raise Absent(f"not ready after {seconds:g} s: {last}")
        time.sleep(0.2)


@contextlib.contextmanager
def serving(command, url, seconds):
    """Runs a server in a separate process group, yields the group's id, and ends the group."""
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            raise Absent(f"{command[0]}: {error.strerror}") from None
        try:
            wait_until_ready(process, url, seconds, log)
            yield process.pid
        finally:
            for kind in signal.SIGTERM, signal.SIGKILL:  # the second also for workers that outlive their parent
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, kind)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(60)


def cpu_ticks(group):
    """Returns the CPU time (user and system) of a process group's live threads by thread name, in clock ticks."""
    ticks = collections.Counter()
    for stat in pathlib.Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the thread has ended
            name, _, rest = stat.read_text().partition("(")[2].rpartition(") ")
            fields = rest.split()  # from field 3 of proc(5) on
            if int(fields[2]) == group:
                ticks[name] += int(fields[11]) + int(fields[12])
    return ticks


def measure_one(name, template, args, turn):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [part.replace("{model}", str(args.model)).replace("{port}", str(port)).replace("{nibble}", args.nibble)
               for part in shlex.split(template)]
    url = f"http://127.0.0.1:{port}"
    load = shlex.split(args.load)
    shared = [] if "--vocab-size" in load else ["--vocab-size", TEXT_TOKENS]
    with serving(command, url, args.start_seconds) as group:
        # The same seed gives all engines of a round the same prompts.
        bench = [args.nibble, "bench", "serve", url, *load, *shared, "--seed", str(turn), "--json"]
        ticks_before = cpu_ticks(group)
        result = subprocess.run(bench, capture_output=True, text=True)
        ticks = cpu_ticks(group) - ticks_before
    if result.returncode != 0:
        raise SystemExit(f"{name}: {result.stderr.strip()}")
    return {"engine": name, "model": pathlib.Path(args.model).name, "round": turn, "server_command": shlex.join(command),
            "server_cpu_seconds": {thread: used / os.sysconf("SC_CLK_TCK") for thread, used in ticks.items()}, **json.loads(result.stdout)}


def measure(args):
    """Runs the servers in turns. Appends a line to the record for each run; leaves out servers that don't start."""
    absent = {}
    with open(args.record, "a") as record:
        for turn in range(args.rounds):
            for name, template in args.servers.items():
                if name in absent:
                    continue
                try:
                    line = measure_one(name, template, args, turn)
                except Absent as reason:
                    absent[name] = reason
                    print(f"{name}: left out: {reason}", flush=True)
                    continue
                record.write(json.dumps(line) + "\n")
                record.flush()
                for load in line["loads"]:
                    print(f"{name}, {load['load']}: {load['output_tokens_per_second']:.1f} output tok/s, {load['num_failed']} failed", flush=True)


def figures_of(line):
    """Yields (load, title, value) for each figure of a run."""
    for load in line.get("loads", []):
        yield from ((load["load"], title, value_of(load)) for title, value_of, _ in FIGURES)
    num_tokens = sum(load["num_output_tokens"] for load in line.get("loads", []))
    for thread, seconds in line.get("server_cpu_seconds", {}).items():
        if num_tokens > 0:
            yield "all loads", f"CPU us/token of threads '{thread}'", 1e6 * seconds / num_tokens


def report(args):
    """Prints medians of the record's lines for this model. The ratio is above 1 where nibble is better than the best other."""
    samples = {}
    for line in map(json.loads, open(args.record)):
        if line["model"] != pathlib.Path(args.model).name or line["engine"] not in args.servers:
            continue
        for load, title, value in figures_of(line):
            if value is not None:
                samples.setdefault((load, title), {}).setdefault(line["engine"], []).append(value)
    print("| load | | " + " | ".join(args.servers) + " | ratio |")
    print("| --- | --- |" + " ---: |" * (len(args.servers) + 1))
    for (load, title), of_engines in samples.items():
        more_is_better = any(title == figure and more for figure, _, more in FIGURES)
        medians = {name: statistics.median(values) for name, values in of_engines.items()}
        cells = [f"{medians[name]:.1f}" if name in medians else "" for name in args.servers]
        ours = medians.pop("nibble", None)
        best = (max if more_is_better else min)(medians.values(), default=None)
        ratio = f"{(ours / best if more_is_better else best / ours):.2f}" if ours and best else ""
        print(f"| {load} | {title} | " + " | ".join(cells) + f" | {ratio} |")
