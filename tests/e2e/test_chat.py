"""Tests nibble chat as people use it: line editing, history, pasted text and commands."""

import json
import pathlib
import resource
import signal
import stat
import subprocess
import time

import pytest

from test_cli import NIBBLE, QUESTION, Terminal, answer, nibble, refusal
from test_serve import serving

UP = "\x1b[A"
PASTE = "\x1b[200~{}\x1b[201~"


def greedy(*arguments, **environment):
    chat = Terminal("--temperature", "0", "--stats", *arguments, **environment)
    chat.expect("> ")
    return chat


def end(chat):
    chat.type("/quit\n")
    assert chat.exit_code() == 0


def ask(chat, question):
    """Types a question. Returns the answer, up to the next prompt."""
    chat.type(question + "\n")
    shown = chat.expect("tok/s") + chat.expect("> ")
    return shown


def saved_by(chat, file):
    chat.type(f"/save {file}\n")
    chat.expect("written")
    return [message for message in json.loads(file.read_text())["messages"] if message["role"] in ("user", "assistant")]


def texts(messages, role):
    return [message["content"][0]["text"] for message in messages if message["role"] == role]


# typing


def test_a_line_can_be_edited(tmp_path):
    chat = greedy()
    # Types "What is 17 + 25?" out of order: ctrl-A, a word, ctrl-E, then deletes two characters.
    ask(chat, "is 17 + 26!\x1b[D\x1b[D\x1b[D\x01What \x05\x7f\x7f5?")
    assert texts(saved_by(chat, tmp_path / "talk.json"), "user") == [QUESTION]
    end(chat)


def test_letters_of_several_bytes_and_columns_are_one_letter_each(tmp_path):
    chat = greedy()
    ask(chat, "What is 17 + ü你好\x7f\x7f\x7f25?")
    assert texts(saved_by(chat, tmp_path / "talk.json"), "user") == [QUESTION]
    end(chat)


def test_a_pasted_text_of_several_lines_is_one_question(tmp_path):
    chat = greedy()
    chat.type(PASTE.format("What is\r17 + 25?\r"))
    assert "17 + 25 = 42." in ask(chat, "")
    assert texts(saved_by(chat, tmp_path / "talk.json"), "user") == ["What is\n17 + 25?"]
    end(chat)


def test_a_pasted_text_that_begins_with_a_path_is_a_question(tmp_path):
    chat = greedy()
    chat.type(PASTE.format("/usr/bin/env:\rWhat is 17 + 25?"))
    ask(chat, "")
    assert texts(saved_by(chat, tmp_path / "talk.json"), "user") == ["/usr/bin/env:\nWhat is 17 + 25?"]
    end(chat)


def test_ctrl_c_drops_the_line_that_was_begun(tmp_path):
    chat = greedy()
    chat.type("Nobody shall see th")
    chat.expect("see th")
    chat.type("\x03")
    chat.expect("ends the program")
    ask(chat, QUESTION)
    assert texts(saved_by(chat, tmp_path / "talk.json"), "user") == [QUESTION]
    end(chat)


@pytest.mark.parametrize("terminal", ["dumb", "", "no-such-terminal"])
def test_a_terminal_that_can_do_nothing_gets_no_escape_codes(terminal):
    chat = greedy(TERM=terminal, NO_COLOR="1")
    chat.type(QUESTION + "\n")
    shown = chat.expect("tok/s") + chat.expect("> ")
    assert "17 + 25 = 42." in shown and "\x1b" not in shown
    end(chat)


# history


def test_questions_of_an_earlier_chat_come_back(tmp_path):
    history = tmp_path / "state" / "history"
    chat = greedy("--history", str(history))
    chat.type(PASTE.format("What is\r17 + 25?"))
    ask(chat, "")
    end(chat)
    assert stat.S_IMODE(history.stat().st_mode) == 0o600

    chat = greedy("--history", str(history))
    assert "17 + 25 = 42." in ask(chat, UP + UP)  # the newest line in the history is /quit
    end(chat)


@pytest.mark.parametrize("variable, folder", [("XDG_STATE_HOME", "nibble"), ("HOME", ".local/state/nibble")])
def test_the_history_lies_where_programs_keep_their_state(tmp_path, variable, folder):
    end(greedy(**{"NIBBLE_HISTORY": None, "XDG_STATE_HOME": None, variable: str(tmp_path)}))
    assert (tmp_path / folder / "history").read_text().splitlines()[-1] == "/quit"


def test_a_history_has_a_bound(tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("_HiStOrY_V2_\n" + "".join(f"line\\040{i}\n" for i in range(3000)))
    end(greedy("--history", str(kept)))
    lines = kept.read_text().splitlines()
    assert len(lines) <= 1001 and lines[-1] == "/quit" and lines[-2] == "line\\0402999"


def test_a_file_that_is_no_history_stays_as_it_is(tmp_path):
    other = tmp_path / "letter.txt"
    other.write_text("Dear Ada,\n")
    chat = Terminal("--history", str(other))
    chat.expect("not a chat history")
    chat.expect("> ")
    end(chat)
    assert other.read_text() == "Dear Ada,\n"


def test_a_history_can_be_left_out(tmp_path):
    end(greedy("--history", "off", HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


# commands


def test_settings_change_between_turns():
    lines = ["/set max-tokens 3", "Hello", "/set max-tokens", "/set", "/set top-p 7", "/set threads 2", "/set stop = "]
    told = answer("chat", "tiny", "--temperature", 0, stdin="\n".join([*lines, QUESTION]).encode())
    assert "(cut off after 3 tokens: --max-tokens)" in told
    assert "end the answer after N tokens, reasoning included [up to the context length]" in told
    assert "always the likeliest token, 1: the model's own distribution [0]" in told
    assert "top-p '7': expected a number above 0, up to 1" in told
    assert "'threads' can't be set here; expected one of reasoning" in told
    assert "17 + 25 \n" in told and "17 + 25 = 42" not in told


def test_a_question_is_answered_again_in_place_of_its_answer(tmp_path):
    lines = ["/retry", "Add 3 and 6.", QUESTION, "/set stop 42", "/retry", f"/save {tmp_path}/talk.json"]
    told = answer("chat", "tiny", "--temperature", 0, stdin="\n".join(lines).encode())
    assert "no question yet" in told
    messages = json.loads((tmp_path / "talk.json").read_text())["messages"]
    assert texts(messages, "user") == ["Add 3 and 6.", QUESTION]
    finals = [message for message in messages if message.get("channel") == "final"]
    assert texts(finals, "assistant")[1].strip() == "17 + 25 ="


def test_a_conversation_that_was_saved_goes_on(tmp_path):
    one, two, other = tmp_path / "one.json", tmp_path / "two.json", tmp_path / "three.json"
    flags = ["chat", "tiny", "--temperature", 0]
    first = ["/system Be brief.", "/reasoning low", QUESTION, f"/save {one}", "Add 3 and 6.", f"/save {two}"]
    answer(*flags, stdin="\n".join(first).encode())
    # The saved file gives the same answer as the original conversation, because the prompt is the same.
    told = answer(*flags, stdin=f"/load {one}\nAdd 3 and 6.\n/save {other}\n".encode())
    assert "2 messages read from" in told
    assert two.read_text() == other.read_text()
    assert "Be brief." in two.read_text() and '"Low"' in two.read_text()


@pytest.mark.parametrize(
    "content, why",
    [
        (None, "No such file"),
        ("{", "is not valid JSON"),
        ('{"messages": 7}', "messages must be"),
        ('{"messages": [{"role": "nobody", "content": "x"}]}', "messages[0].role"),
        ('{"messages": [{"role": "tool", "content": "x"}]}', "tool"),
        ("[" * 100000, "nested more than 128 levels deep"),
    ],
)
def test_a_file_that_is_no_conversation_is_one_line(tmp_path, content, why):
    file = tmp_path / "talk.json"
    if content is not None: file.write_text(content)
    told = answer("chat", "tiny", stdin=f"{QUESTION}\n/load {file}\n/history\n".encode()).splitlines()
    (line,) = [line for line in told if str(file) in line]
    assert why in line
    assert f"> {QUESTION}" in told  # the conversation is unchanged


def test_help_lists_the_commands_in_80_columns():
    told = answer("chat", "tiny", "--temperature", 0, stdin=b"/help").splitlines()
    for command in ("/retry", "/regen", "/read FILE", "/set NAME VALUE", "/save FILE", "/load FILE", "/stats", "/reset", "/quit"):
        assert any(line.startswith(f"  {command} ") for line in told)
    assert max(map(len, told)) <= 80


def test_speed_is_said_only_if_it_is_asked_for():
    lines = [QUESTION, "/stats", QUESTION, "/stats", QUESTION]
    told = answer("chat", "tiny", "--temperature", 0, stdin="\n".join(lines).encode())
    assert told.count("first token after ") == 1 and told.count("17 + 25 = 42.") == 3
    assert answer("chat", "tiny", "--temperature", 0, "--stats", stdin=QUESTION.encode()).count("tok/s") == 2


def test_a_file_follows_the_next_question(tmp_path):
    notes, talk = tmp_path / "notes.txt", tmp_path / "talk.json"
    notes.write_text("3 and 6\n")
    lines = [f"/read {notes}", "Add", f"/read {tmp_path}/none", f"/read {notes}", "/reset", QUESTION, f"/save {talk}"]
    told = answer("chat", "tiny", "--temperature", 0, stdin="\n".join([*lines, "/quit"]).encode())
    assert f"7 bytes of {notes} follow the next question" in told and "No such file" in told
    assert texts([m for m in json.loads(talk.read_text())["messages"] if m["role"] == "user"], "user") == [QUESTION]
    lines = [f"/read {notes}", "Add", f"/save {talk}"]
    answer("chat", "tiny", "--temperature", 0, stdin="\n".join(lines).encode())
    assert texts([m for m in json.loads(talk.read_text())["messages"] if m["role"] == "user"], "user") == ["Add\n\n3 and 6"]


def test_lines_between_two_marks_are_one_question(tmp_path):
    talk = tmp_path / "talk.json"
    block = ['"""', "What is", "17 + 25?", '"""', f"/save {talk}", '"""Add 3', 'and 6."""', f"/save {talk}.2"]
    answer("chat", "tiny", "--temperature", 0, stdin="\n".join(block).encode())
    users = [m for m in json.loads(pathlib.Path(f"{talk}.2").read_text())["messages"] if m["role"] == "user"]
    assert texts(users, "user") == ["What is\n17 + 25?", "Add 3\nand 6."]


def test_tab_completes_commands_and_files(tmp_path):
    (tmp_path / "questions.txt").write_text(QUESTION)
    chat = greedy()
    chat.type(f"/rea\t")
    chat.expect("read  reasoning")
    chat.type(f"d {tmp_path}/qu\t\n")
    chat.expect("follow the next question")
    chat.type("/hist\t\n")
    chat.expect("> ")
    end(chat)


def test_a_spinner_counts_the_prompt_and_ctrl_c_ends_it_at_once(tmp_path):
    long = tmp_path / "long.txt"
    long.write_text("word " * 3000)
    chat = Terminal("--backend", "reference")
    chat.expect("> ")
    chat.type(f"/read {long}\n")
    chat.expect("follow the next question")
    chat.expect("> ")
    chat.type("Summarise:\n")
    chat.expect("reading the prompt: 0 of ")
    told = chat.expect("reading the prompt: 512 of ")
    assert " tokens, " in told and "\x1b[K" in told
    pressed = time.monotonic()
    chat.type("\x03")
    chat.expect("(cancelled)")
    chat.expect("> ")
    assert time.monotonic() - pressed < 1
    chat.type("/reset\n")
    chat.expect("new conversation")
    chat.expect("> ")
    chat.type(QUESTION + "\n")  # the step of the other prompt is given up
    chat.expect("17 + 25 = 42.")
    end(chat)


# --server


@pytest.fixture(scope="module")
def server():
    with serving("--api-key", "secret") as running:
        yield running


def test_a_chat_with_a_server_needs_no_model(server, tmp_path):
    talk = tmp_path / "talk.json"
    lines = [QUESTION, "/stats", "Add 3 and 6.", f"/save {talk}", QUESTION]
    told = answer("chat", "--server", server.url, "--temperature", 0, stdin="\n".join(lines).encode(), env={"NIBBLE_API_KEY": "secret"})
    assert "reasoning: " in told and "17 + 25 = 42." in told
    assert told.count("prompt tokens, first token after ") == 2 and "9" in told
    saved = [message for message in json.loads(talk.read_text())["messages"] if message.get("channel") == "final"]
    assert [text.strip() for text in texts(saved, "assistant")][0] == "17 + 25 = 42."


def test_a_save_without_room_leaves_the_earlier_one_and_the_conversation(tmp_path):
    def limit():  # limits files to 100 bytes: writing fails as on a full disk
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    talk, link = tmp_path / "talk.json", tmp_path / "link.json"
    talk.write_text("earlier")
    talk.chmod(0o600)
    link.symlink_to(talk)
    lines = [QUESTION, f"/save {link}", QUESTION, "/quit"]
    chat = [NIBBLE, "chat", "tiny", "--temperature", "0", "--threads", "1"]
    done = subprocess.run(chat, input="\n".join(lines), capture_output=True, text=True, preexec_fn=limit, restore_signals=False, timeout=120)
    assert done.returncode == 0 and done.stdout.count("17 + 25 = 42.") == 2
    assert "cannot be written: File too large" in done.stdout
    assert talk.read_text() == "earlier" and sorted(tmp_path.iterdir()) == [link, talk]
    answer("chat", "tiny", "--temperature", 0, stdin=f"{QUESTION}\n/save {link}\n".encode())
    assert json.loads(talk.read_text())["messages"] and link.is_symlink() and talk.stat().st_mode & 0o777 == 0o600


def test_the_same_questions_get_the_same_answers_from_a_server_and_here(server, tmp_path):
    lines = ["/system Be brief.", QUESTION, "Add 3 and 6.", f"/save {tmp_path}/FILE"]
    date = ("--date", "2026-11-22")
    for name, flags, env in (("here", ("tiny",), {}), ("there", ("--server", server.url + "/v1", "tiny", "--api-key", "secret"), {})):
        answer("chat", *flags, "--temperature", 0, *date, stdin="\n".join(lines).replace("FILE", name).encode(), env=env)
    assert (tmp_path / "here").read_text() == (tmp_path / "there").read_text()


def test_ctrl_c_ends_the_request_at_the_server(server, tmp_path):
    # The schema demands a million characters: no answer ends before ctrl-C, even on a busy machine.
    schema = tmp_path / "long.json"
    schema.write_text(json.dumps({"type": "string", "minLength": 1000000}))
    chat = Terminal("--server", server.url, "--api-key", "secret", "--seed", "1", "--json-schema", str(schema))
    chat.expect("> ")
    chat.type("Tell me a story about a fox.\n")
    chat.expect("\x1b[2m")
    chat.type("\x03")
    chat.expect("> ")
    end(chat)


def test_a_server_that_cannot_be_asked_is_one_line(server, tmp_path):
    assert "127.0.0.1:1/v1/models: request failed" in refusal("chat", "--server", "http://127.0.0.1:1")
    assert "HTTP 401" in refusal("chat", "--server", server.url, env={"NIBBLE_API_KEY": "wrong"})
    assert "MODEL is required, or --server URL" in refusal("chat")
    assert "--api-key needs --server" in refusal("chat", "tiny", "--api-key", "x")
    told = answer("chat", "--server", server.url, "no-such-model", "--api-key", "secret", stdin=QUESTION.encode())
    assert "HTTP 404" in told and "no-such-model" in told
    (tmp_path / "yes.gbnf").write_text('root ::= "yes"\n')
    told = answer("chat", "--server", server.url, "--api-key", "secret", "--grammar", tmp_path / "yes.gbnf", stdin=QUESTION.encode())
    assert "--grammar does not work with --server" in told


def test_a_misspelt_command_is_guessed():
    told = answer("chat", "tiny", stdin=b"/sytsem x\n/xyzzy\n")
    assert "unknown command '/sytsem': did you mean /system? /help lists the commands" in told
    assert "unknown command '/xyzzy'. /help lists the commands" in told


def test_short_flags_are_those_of_llama_cpp():
    told = nibble("run", "-m", "tiny", "--stats", "-p", QUESTION, "-n", 5, "-c", 256, "-t", 2, "--temperature", 0)
    assert told.returncode == 0 and b"5 output tokens" in told.stderr
    assert b"at most 131072" in nibble("run", "tiny", "-p", "x", "-c", 200000).stderr
    assert b"'0': expected a whole number from 1 to 1024" in nibble("serve", "tiny", "-t", 0).stderr
    report = json.loads(answer("bench", "-m", "tiny", "-p", 0, "-n", 1, "-r", 1, "-t", 2, "--json"))
    assert report["threads"] == 2 and report["model"] == "tiny"
