"""Tests nibble chat as people use it: line editing, history, pasted text and commands."""

import json
import stat

import pytest

from test_cli import QUESTION, Terminal, answer, nibble

UP = "\x1b[A"
PASTE = "\x1b[200~{}\x1b[201~"


def greedy(*arguments, **environment):
    chat = Terminal("--temperature", "0", *arguments, **environment)
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
    assert "3 output tokens" in told
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


def test_help_lists_the_commands_and_the_last_line_says_when_the_first_token_came():
    told = answer("chat", "tiny", "--temperature", 0, stdin=f"/help\n{QUESTION}".encode())
    for command in ("/retry", "/set NAME VALUE", "/save FILE", "/load FILE", "/reset", "/quit"):
        assert f"  {command} " in told
    assert "first token after " in told.splitlines()[-1]


def test_short_flags_are_those_of_llama_cpp():
    told = nibble("run", "-m", "tiny", "-p", QUESTION, "-n", 5, "-c", 256, "-t", 2, "--temperature", 0)
    assert told.returncode == 0 and b"5 output tokens" in told.stderr
    assert b"at most 131072" in nibble("run", "tiny", "-p", "x", "-c", 200000).stderr
    assert b"'0': expected a whole number from 1 to 1024" in nibble("serve", "tiny", "-t", 0).stderr
    report = json.loads(answer("bench", "-m", "tiny", "-p", 0, "-n", 1, "-r", 1, "-t", 2, "--json"))
    assert report["threads"] == 2 and report["model"] == "tiny"
