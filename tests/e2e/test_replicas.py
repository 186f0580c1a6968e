"""Tests two replicas of the miniature model behind HAProxy and nginx, configured as in deploy/ except for ports: one is
restarted under load, one dies, and conversations stay where their prefix is cached. tools/end_to_end unpacks the
proxies."""

import itertools
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import openai
import pytest

from ports import free_ports
from test_serve import ENDLESS, NIBBLE, Server, first_event

DEPLOY = pathlib.Path(__file__).parents[2] / "deploy"
PROXIES = pathlib.Path(os.environ.get("E2E_PROXIES", "/nowhere"))
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, (PROXIES / "usr/lib").glob("*-linux-gnu")))}
# The delay and the times of haproxy.cfg are a fifth of the documented ones. The other flags save memory.
FLAGS = ("--shutdown-delay", "1", "--context", "2048", "--max-sequences", "4")

pytestmark = pytest.mark.skipif("E2E_PROXIES" not in os.environ, reason="tools/end_to_end unpacks HAProxy and nginx where it can")


def wait_until(holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def status(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


class Replica(Server):
    def __init__(self, port):
        super().__init__(None, port)
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [NIBBLE, "serve", "tiny", "--port", str(self.port), *FLAGS],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "NIBBLE_THREADS": "1"},
        )
        wait_until(lambda: status(self.url + "/health") == 200)

    def num_answers(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=10) as reply:
            text = reply.read().decode()
        return sum(int(number) for number in re.findall(r'^nibble:http_requests_total\{.*endpoint="/v1/.*\} (\d+)$', text, re.MULTILINE))


def haproxy(config, folder):
    (folder / "haproxy.cfg").write_text(config)
    program = [PROXIES / "usr/sbin/haproxy", "-db", "-f", folder / "haproxy.cfg"]
    subprocess.run([*program, "-c"], env=ENVIRONMENT, check=True, timeout=20)
    return program


def nginx(config, folder):
    (folder / "nibble.conf").write_text(config)
    folders = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "main.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; events {{}}\nhttp {{ access_log off; {folders} include {folder}/nibble.conf; }}\n"
    )
    program = [PROXIES / "usr/sbin/nginx", "-e", "stderr", "-p", folder, "-c", folder / "main.conf"]
    subprocess.run([*program, "-t"], env=ENVIRONMENT, check=True, timeout=20)
    return program


class Setup:
    def __init__(self, replicas, port):
        self.replicas, self.server = replicas, Server(None, port)
        self.url = self.server.url

    def client(self):
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def ask(self, messages, **fields):
        """Returns the answer and the running replicas that gave it."""
        running = [replica for replica in self.replicas if replica.process.poll() is None]
        before = [replica.num_answers() for replica in running]
        answer = self.client().chat.completions.create(model="tiny", messages=messages, max_tokens=2, **fields)
        return answer, [replica for replica, number in zip(running, before) if replica.num_answers() > number]


    def long_stream(self, replica):
        """Starts a stream on this replica that lasts seconds. Returns when it has begun."""
        names = map(str, itertools.count())
        session = next(name for name in names if self.ask(conversation(0), extra_headers={"X-Session-Id": name})[1] == [replica])
        body = {**ENDLESS, "max_tokens": 2000, "n": 2, "stream": True}
        return first_event(self.server.post("/v1/completions", body, f"X-Session-Id: {session}\r\nConnection: close\r\n"))


@pytest.fixture(scope="module", params=["haproxy.cfg", "nginx.conf"])
def setup(request, tmp_path_factory):
    port, *ports = free_ports(3)
    config = (DEPLOY / request.param).read_text()
    for written, here in zip((8080, 8000, 8001), (port, *ports)):
        assert config.count(f"127.0.0.1:{written}") == 1
        # Braces mark a replaced port, so that no port is replaced twice.
        config = config.replace(f"127.0.0.1:{written}", f"127.0.0.1:{{{here}}}")
    config = config.replace("inter 1s", "inter 200ms")
    config = re.sub(r"127\.0\.0\.1:\{(\d+)\}", r"127.0.0.1:\1", config)
    replicas, processes = [], []
    try:
        for own in ports:
            replicas.append(Replica(own))
        program = {"haproxy.cfg": haproxy, "nginx.conf": nginx}[request.param](config, tmp_path_factory.mktemp("proxy"))
        processes.append(subprocess.Popen(program, env=ENVIRONMENT))
        wait_until(lambda: status(f"http://127.0.0.1:{port}/health") == 200)
        yield Setup(replicas, port)
    finally:
        for process in [replica.process for replica in replicas] + processes:
            process.kill()
            process.wait()


def conversation(topic):
    return [{"role": "system", "content": "Answer in one word."}, {"role": "user", "content": f"What is {topic} + 25?"}]


def test_a_conversation_stays_with_its_replica(setup):
    used = []
    for topic in range(12):
        messages, chosen = conversation(topic), []
        for turn in range(3):
            answer, asked = setup.ask(messages, seed=turn)
            chosen += asked
            # The first 32 tokens, a page, are the system message, which any replica may have cached. The
            # user's message comes later.
            assert turn == 0 or answer.usage.prompt_tokens_details.cached_tokens > 32
            messages += [{"role": "assistant", "content": "No."}, {"role": "user", "content": "Why?"}]
        assert chosen == chosen[:1] * 3
        used += chosen[:1]
    assert set(used) == set(setup.replicas)


def test_a_session_stays_with_its_replica_whatever_it_asks(setup):
    used = [setup.ask(conversation(topic), extra_headers={"X-Session-Id": "mine"})[1] for topic in range(6)]
    assert used == used[:1] * 6 and len(used[0]) == 1


def test_no_request_fails_while_each_replica_is_restarted(setup):
    stop, failures, counts = threading.Event(), [], []

    def ask_on_and_on(number):
        client = setup.client()
        for turn in itertools.count():
            if stop.wait(0.1):
                counts.append(turn)
                return
            wish = dict(model="tiny", messages=conversation(100 * number + turn), max_tokens=4)
            try:
                if turn % 2:
                    assert client.chat.completions.create(**wish).choices[0].finish_reason
                else:
                    assert [chunk for chunk in client.chat.completions.create(**wish, stream=True)][-1].choices[0].finish_reason
            except Exception as error:
                failures.append((number, turn, repr(error)))

    threads = [threading.Thread(target=ask_on_and_on, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for replica in setup.replicas:
            stream = setup.long_stream(replica)
            replica.process.send_signal(signal.SIGTERM)
            # The running answer is finished, although the proxy no longer uses this replica.
            assert b"data: [DONE]" in stream.read()
            assert replica.process.wait(timeout=20) == 0
            replica.start()
            before = replica.num_answers()
            wait_until(lambda: replica.num_answers() > before)  # the replica gets requests again
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == [] and min(counts) > 3


def test_a_replica_that_dies_is_left_out_at_once(setup):
    dying = setup.replicas[0]
    dying.process.kill()
    dying.process.wait()
    try:
        for topic in range(8):
            _, asked = setup.ask(conversation(topic))
            assert asked == setup.replicas[1:]
    finally:
        dying.start()


def test_who_is_outside_does_not_read_metrics(setup):
    assert status(setup.url + "/metrics") == 403 and status(setup.url + "/v1/models") == 200
