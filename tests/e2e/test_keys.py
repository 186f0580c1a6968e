"""Tests API keys: what a key file may contain, who owns a stored response, and keys that change while the server
runs."""

import json
import subprocess
import urllib.error
import urllib.request

import openai
import pytest

from test_serve import NIBBLE, serving


def ask(server, path, key=None, body=None, method=None):
    """Returns the status and JSON of the answer."""
    headers = {"Authorization": "Bearer " + key} if key else {}
    data = json.dumps(body).encode() if body is not None else None
    try:
        with urllib.request.urlopen(urllib.request.Request(server.url + path, data, headers, method=method), timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_key_file_has_names_and_comments(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# the team\n\nalice:sk-alice\nsk-plain\n  # sk-old\n")
    with serving("--api-key-file", keys, "--api-key", "sk-flag") as server:
        for key in ("sk-alice", "sk-plain", "sk-flag"):
            assert ask(server, "/v1/models", key)[0] == 200
        for key in (None, "alice:sk-alice", "# the team", "sk-old", "# sk-old", "#"):
            assert ask(server, "/v1/models", key)[0] == 401


def test_a_key_of_the_environment_is_one_unless_a_flag_gives_others(monkeypatch):
    monkeypatch.setenv("NIBBLE_API_KEY", "sk-variable")
    with serving() as server:
        assert [ask(server, "/v1/models", key)[0] for key in ("sk-variable", "sk-flag", None)] == [200, 401, 401]
    with serving("--api-key", "sk-flag") as server:
        assert [ask(server, "/v1/models", key)[0] for key in ("sk-variable", "sk-flag")] == [401, 200]
    monkeypatch.setenv("NIBBLE_API_KEY", "")
    with serving() as server:
        assert ask(server, "/v1/models")[0] == 200


@pytest.mark.parametrize("text, told", [("", "has no key"), ("# nothing\n\n", "has no key"), ("a b:secret\n", "line 1")])
def test_a_file_that_lets_nobody_in_or_has_a_fault_is_one_clear_line(tmp_path, text, told):
    (tmp_path / "keys").write_text(text)
    done = subprocess.run([NIBBLE, "serve", "tiny", "--port", "0", "--api-key-file", tmp_path / "keys"], capture_output=True, timeout=60)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert told in done.stderr.decode() and "secret" not in done.stderr.decode()


def test_a_stored_response_belongs_to_the_key_that_made_it():
    with serving("--api-key", "alice:a", "--api-key", "alice:a2", "--api-key", "bob:b", "--api-key", "c") as server:
        mine = server.client("a").responses.create(model="tiny", input="What is 17 + 25?", max_output_tokens=8)
        running = server.client("a").responses.create(
            model="tiny", input="Hello", background=True, temperature=1, extra_body={"ignore_eos": True}
        )
        item = [{"type": "item_reference", "id": mine.output[0].id}, {"role": "user", "content": "And?"}]
        for stranger in ("b", "c"):
            for response in (mine, running):
                path = "/v1/responses/" + response.id
                assert ask(server, path, stranger)[0] == 404
                assert ask(server, path, stranger, method="DELETE")[0] == 404
                assert ask(server, path + "/cancel", stranger, {})[0] == 404
                assert ask(server, path + "/input_items", stranger)[0] == 404
            status, told = ask(server, "/v1/responses", stranger, {"input": "And?", "previous_response_id": mine.id})
            assert status == 400 and told["error"]["code"] == "previous_response_not_found"
            never = ask(server, "/v1/responses", stranger, {"input": "And?", "previous_response_id": "resp_never"})[1]
            assert told["error"]["message"] == never["error"]["message"].replace("resp_never", mine.id)
            assert ask(server, "/v1/responses", stranger, {"input": item})[0] == 404
        # Keys with the same name belong to the same user.
        for key in ("a", "a2"):
            assert ask(server, "/v1/responses/" + mine.id, key)[0] == 200
            more = {"input": "And?", "previous_response_id": mine.id, "max_output_tokens": 8}
            assert ask(server, "/v1/responses", key, more)[0] == 200
            assert ask(server, "/v1/responses", key, {"input": item, "max_output_tokens": 8})[0] == 200
        assert ask(server, "/v1/responses/" + running.id, "a")[1]["status"] in ("queued", "in_progress")
        assert ask(server, "/v1/responses/" + running.id + "/cancel", "a2", {})[0] == 200
        assert ask(server, "/v1/responses/" + mine.id, "a", method="DELETE")[0] == 200
        with pytest.raises(openai.NotFoundError):
            server.client("a").responses.retrieve(mine.id)
