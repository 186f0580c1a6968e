"""Tests `nibble harmony` against the official library, openai-harmony, on generated conversations.

Both get the same JSON, which the official library also passes to its own renderer: text and ids must be equal. The text
of the official renderer must come back from nibble's parser unchanged, and equal the result of the official parser
wherever that parser accepts it. The vocabulary is the committed rank file of o200k; nothing is downloaded.
"""

import gzip
import json
import os
import random
import re
import subprocess
from pathlib import Path

import pytest
from openai_harmony import Conversation, HarmonyError, RenderConversationConfig, Role, load_harmony_encoding

ROOT = Path(__file__).resolve().parents[2]
NUM_CONVERSATIONS = 2000
SEED = 20250805
MESSAGE = 200008  # <|message|>

ROLES = ["system", "developer", "user", "assistant", "tool"]
CHANNELS = ["analysis", "commentary", "final"]
CONTENT_TYPES = ["json", "code", "<|constrain|>json", "<|constrain|>", "<|constrain|>my type", "text", ""]
WORDS = [
    "the", "weather", "in", "Oslo", "2 + 2", "naïve", "Straße", "日本語", "🙂👍🏽", "e\u0301", "\u00a0", "don't", "x" * 30,
    "<|end|>", "<|start|>assistant", "<|channel|>", "to=functions.f", "\n", "\n\n", "\r\n", "\t", "  ", "// namespace",
    '"quoted"', "\\", "{", "}", "null", "\u2028", "\ufeff", "\x00", "\x7f", "1234567", "...", "?!",
]  # fmt: skip
NAMES = ["alice", "Bob-2", "größe", "functions.get_time", "browser.search", "python", "a b", "all", "assistant", "名前", ""]
NUMBERS = [0, 1, -1, 20, 2**53, 2**63, -(2**63), 2**64, 0.5, -0.25, 1.0, 1e15, 1e16, 1.5e16, 1e-5, 1e-6, 2.5e-7, 1e300, -3.0]


class Generator:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def chance(self, probability):
        return self.rng.random() < probability

    def text(self, max_words=12):
        words = self.rng.choices(WORDS, k=self.rng.randint(0, max_words))
        return self.rng.choice(["", " "]).join(words)

    def name(self):
        return self.rng.choice(NAMES)

    def maybe(self, probability, make, *args):
        return make(*args) if self.chance(probability) else None

    def value(self, depth=0):
        kind = self.rng.randrange(7 if depth < 3 else 5)
        if kind < 2:
            return self.text(3)
        if kind == 2:
            return self.rng.choice(NUMBERS)
        if kind == 3:
            return round(self.rng.uniform(-1000, 1000), self.rng.randint(0, 6))
        if kind == 4:
            return self.rng.choice([True, False])
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.rng.randint(0, 3))]
        return {self.text(1): self.value(depth + 1) for _ in range(self.rng.randint(0, 3))}

    def schema(self, depth=0):
        if depth > 5 or self.chance(0.03):
            return self.rng.choice([{}, True, "string", 7, [], {"$ref": "#/x"}, {"const": 1}, {"anyOf": []}])
        makers = [self.simple, self.simple, self.string, self.string, self.array, self.object, self.one_of, self.types]
        schema = self.rng.choice(makers)(depth)
        if self.chance(0.3):
            schema["description"] = self.text(6) if self.chance(0.95) else 7
        if self.chance(0.1):
            schema["title"] = self.text(2) if self.chance(0.9) else None
        if self.chance(0.25):
            schema["default"] = self.value()
        if self.chance(0.15):
            schema["nullable"] = self.rng.choice([True, True, False, "yes"])
        if self.chance(0.1):
            schema["examples"] = self.rng.choice([[], "none", [self.value() for _ in range(3)]])
        items = list(schema.items())
        self.rng.shuffle(items)
        return dict(items)

    def simple(self, _):
        return {"type": self.rng.choice(["number", "integer", "boolean", "null", "any", 7])}

    def string(self, _):
        schema = {"type": "string"}
        if self.chance(0.4):
            schema["enum"] = [self.rng.choice(["a", "b c", "null", 'q"', 7, None]) for _ in range(self.rng.randint(0, 4))]
        return schema

    def array(self, depth):
        return {"type": "array", "items": self.schema(depth + 1)} if self.chance(0.8) else {"type": "array"}

    def types(self, _):
        return {"type": self.rng.choices(["string", "integer", "number", "null", "object", 7], k=self.rng.randint(0, 3))}

    def one_of(self, depth):
        if self.chance(0.1):
            return {"oneOf": "no list", "type": "string"}
        variants = [self.schema(depth + 1) for _ in range(self.rng.randint(0, 3))]
        if variants and isinstance(variants[0], dict) and self.chance(0.3):
            return {"oneOf": variants, "description": variants[0].get("description", "same")}
        return {"oneOf": variants}

    def object(self, depth):
        keys = [f"k{i}" if self.chance(0.8) else self.text(2) for i in range(self.rng.randint(0, 4))]
        schema = {"type": "object"}
        if self.chance(0.9):
            schema["properties"] = {key: self.schema(depth + 1) for key in keys}
        if self.chance(0.5):
            schema["required"] = [key for key in keys if self.chance(0.5)] + self.rng.choice([[], [7]])
        return schema

    def parameters(self):
        schema = self.schema() if self.chance(0.2) else self.object(0)
        return schema if isinstance(schema, dict) else {}

    def tools(self):
        spaces = self.rng.sample(["functions", "browser", "python", "Weather", "a.b", "zz"], self.rng.randint(0, 3))
        return {
            name: {
                "name": name,
                "description": self.maybe(0.5, self.text),
                "tools": [
                    {"name": f"tool_{i}", "description": self.text(), "parameters": self.maybe(0.8, self.parameters)}
                    for i in range(self.rng.randint(0, 3))
                ],
            }
            for name in spaces
        }

    def system(self):
        channels = self.rng.choice([CHANNELS, CHANNELS, ["analysis", "final"], []])
        config = {"valid_channels": channels, "channel_required": self.chance(0.7)}
        return {
            "type": "system_content",
            "model_identity": self.maybe(0.8, self.text),
            "knowledge_cutoff": self.maybe(0.8, lambda: "2024-06"),
            "conversation_start_date": self.maybe(0.6, lambda: "2025-06-28"),
            "reasoning_effort": self.maybe(0.9, self.rng.choice, ["Low", "Medium", "High"]),
            "channel_config": config if self.chance(0.9) else None,
            "tools": self.maybe(0.3, self.tools),
        }

    def developer(self):
        return {
            "type": "developer_content",
            "instructions": self.maybe(0.7, self.text),
            "tools": self.maybe(0.7, self.tools),
        }

    def message(self):
        role = self.rng.choices(ROLES, weights=[1, 1, 4, 8, 3])[0]
        content = [{"type": "text", "text": self.text(30)}]
        if role == "system" and self.chance(0.7):
            content = [self.system()]
        if role == "developer" and self.chance(0.7):
            content = [self.developer()]
        if self.chance(0.02):
            content = []
        message = {"role": role, "content": content}
        if role == "tool" or self.chance(0.1):
            message["name"] = self.name()
        if self.chance(0.8 if role == "assistant" else 0.3):
            message["channel"] = self.rng.choice(CHANNELS) if self.chance(0.95) else self.text(2)
        if self.chance(0.3):
            message["recipient"] = self.name()
        if self.chance(0.2):
            message["content_type"] = self.rng.choice(CONTENT_TYPES)
        return message

    def conversation(self):
        messages = [self.message() for _ in range(self.rng.randint(0, 9))]
        if self.chance(0.7):
            messages.insert(0, {"role": "developer", "content": [self.developer()]})
        if self.chance(0.8):
            messages.insert(0, {"role": "system", "content": [self.system()]})
        return Conversation.from_json(json.dumps({"messages": messages}))


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "o200k_base.tiktoken"
    path.write_bytes(gzip.decompress((ROOT / "tests/data/o200k_base.tiktoken.gz").read_bytes()))
    return path


@pytest.fixture(scope="module")
def encoding(vocabulary):
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(vocabulary.parent)
    return load_harmony_encoding("HarmonyGptOss")


@pytest.fixture(scope="module")
def conversations():
    generator = Generator(SEED)
    return [generator.conversation() for _ in range(NUM_CONVERSATIONS)]


def nibble(command, vocabulary, lines, *flags):
    """Returns the output of `nibble harmony COMMAND` for the lines, each of which is a JSON text."""
    result = subprocess.run(
        [os.environ["NIBBLE_BINARY"], "harmony", command, str(vocabulary), *flags],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    answers = [json.loads(line) for line in result.stdout.split("\n") if line]
    assert len(answers) == len(lines)
    return answers


def rendered_by_nibble(vocabulary, conversations, *flags):
    return nibble("render", vocabulary, [c.to_json() for c in conversations], "--jsonl", *flags)


def assert_rendered_equal(encoding, conversations, official, ours):
    for conversation, tokens, rendered in zip(conversations, official, ours):
        assert rendered["text"] == encoding.decode_utf8(tokens), conversation.to_json()
        assert rendered["tokens"] == tokens, conversation.to_json()


@pytest.mark.parametrize("rule, auto_drop", [("none", False), ("first-final", True)])
def test_renders_for_completion_as_the_official_library(encoding, vocabulary, conversations, rule, auto_drop):
    config = RenderConversationConfig(auto_drop_analysis=auto_drop)
    official = [encoding.render_conversation_for_completion(c, Role.ASSISTANT, config) for c in conversations]
    ours = rendered_by_nibble(vocabulary, conversations, "--drop-analysis", rule)
    assert_rendered_equal(encoding, conversations, official, ours)


def test_renders_without_generation_prompt_as_the_official_library(encoding, vocabulary, conversations):
    official = [encoding.render_conversation(c) for c in conversations]
    ours = rendered_by_nibble(vocabulary, conversations, "--drop-analysis", "first-final", "--no-generation-prompt")
    assert_rendered_equal(encoding, conversations, official, ours)


def test_renders_for_training_as_the_official_library(encoding, vocabulary, conversations):
    official = [encoding.render_conversation_for_training(c) for c in conversations]
    flags = ["--drop-analysis", "first-final", "--no-generation-prompt", "--training"]
    assert any(tokens[-1:] == encoding.encode("<|return|>", allowed_special="all") for tokens in official)
    assert_rendered_equal(encoding, conversations, official, rendered_by_nibble(vocabulary, conversations, *flags))


def test_the_default_drops_all_analysis_before_the_last_final(encoding, vocabulary, conversations):
    keep_all = RenderConversationConfig(auto_drop_analysis=False)
    compared, official = [], []
    for conversation in conversations:
        messages = conversation.messages
        last = max((i for i, m in enumerate(messages) if m.channel == "final"), default=-1)
        kept = [m for i, m in enumerate(messages) if i > last or m.channel != "analysis"]
        # Skipped if a developer message is dropped: the system message also depends on its tools.
        if any(m.author.role == Role.DEVELOPER for m in messages if m not in kept):
            continue
        compared.append(conversation)
        official.append(encoding.render_conversation_for_completion(Conversation(messages=kept), Role.ASSISTANT, keep_all))
    assert len(compared) > NUM_CONVERSATIONS / 2
    assert_rendered_equal(encoding, compared, official, rendered_by_nibble(vocabulary, compared))


def is_word(text):
    return text is None or re.fullmatch(r"[^\s<]+", text)


def is_unambiguous(message):
    """Returns whether the rendered header can be parsed back to the message by the grammar that both parsers share."""
    if not all(is_word(text) for text in [message.author.name, message.channel, message.recipient]):
        return False
    if message.recipient == "all":
        return False
    return message.content_type in [None, "code", "json", "<|constrain|>json"]


def is_for_official_parser(message):
    is_tool = message.author.role == Role.TOOL
    if is_tool and (message.recipient is None or message.author.name in [role.value for role in Role]):
        return False
    if not is_tool and message.author.name is not None:
        return False
    return message.content_type is None or message.recipient is not None


def as_parsed(encoding, message):
    """Returns the message as a parser returns it: its content is the text that the model reads."""
    tokens = encoding.render(message)
    text = encoding.decode_utf8(tokens[tokens.index(MESSAGE) + 1 : -1])
    parsed = {"role": message.author.role.value, "content": [{"type": "text", "text": text}]}
    for key, value in [
        ("name", message.author.name),
        ("channel", message.channel),
        ("recipient", message.recipient),
        ("content_type", message.content_type),
    ]:
        if value is not None:
            parsed[key] = value
    return parsed


def parsed_by_nibble(vocabulary, streams):
    lines = [json.dumps({"tokens": tokens, "role": role}) for tokens, role in streams]
    return [answer["messages"] for answer in nibble("parse", vocabulary, lines)]


def without_nulls(message):
    return {key: value for key, value in message.items() if value is not None}


def test_parses_what_was_rendered_into_the_same_messages(encoding, vocabulary, conversations):
    streams, expected = [], []
    for conversation in conversations:
        messages = [m for m in conversation.messages if is_unambiguous(m) and m.author.name not in ["assistant", "all"]]
        streams.append(([token for m in messages for token in encoding.render(m)], None))
        expected.append([as_parsed(encoding, m) for m in messages])
    assert sum(map(len, expected)) > NUM_CONVERSATIONS
    for said, parsed in zip(expected, parsed_by_nibble(vocabulary, streams)):
        repairs = [message.pop("repairs", None) for message in parsed]
        assert parsed == said
        # A name alone could also be a misspelt role. So reading it as a name is recorded as a repair.
        for message, repair in zip(said, repairs):
            is_bare_name = message["role"] == "tool" and "recipient" not in message and "." not in message["name"]
            assert bool(repair) == is_bare_name, (message, repair)


def test_parses_as_the_official_parser_where_that_accepts(encoding, vocabulary, conversations):
    rng = random.Random(SEED)
    streams, expected = [], []
    for conversation in conversations:
        messages = [m for m in conversation.messages if is_unambiguous(m) and is_for_official_parser(m)]
        tokens = [token for m in messages for token in encoding.render(m)]
        streams.append((tokens, None))
        expected.append(encoding.parse_messages_from_completion_tokens(tokens, None))
        # As in a completion, the prompt ends in <|start|>assistant. The stream may stop anywhere in the last
        # text.
        tokens = [token for m in messages if m.author.role == Role.ASSISTANT for token in encoding.render(m)][2:]
        if not tokens:
            continue
        last_text = len(tokens) - tokens[::-1].index(MESSAGE)
        tokens = tokens[: rng.randint(last_text, len(tokens))]
        streams.append((tokens, "assistant"))
        expected.append(encoding.parse_messages_from_completion_tokens(tokens, Role.ASSISTANT))
    assert sum(map(len, expected)) > NUM_CONVERSATIONS
    for messages, parsed in zip(expected, parsed_by_nibble(vocabulary, streams)):
        assert parsed == [without_nulls(message.to_dict()) for message in messages]


HEADER_PARTS = [
    "assistant", "user", "tool", "functions.f", "<|channel|>analysis", "<|channel|>commentary", "<|channel|>final",
    " to=functions.f", " to=assistant", " json", "json", " code", "<|constrain|>json", " <|constrain|>json", " x", " ", "\n",
]  # fmt: skip


def test_headers_that_are_not_flagged_are_read_as_the_official_parser_reads_them(encoding, vocabulary):
    rng = random.Random(SEED)
    streams, expected = [], []
    while len(streams) < 5000:
        text = "".join(rng.choices(HEADER_PARTS, k=rng.randint(0, 5))) + "<|message|>hi<|end|>"
        role = rng.choice([None, "assistant"])
        tokens = encoding.encode(text if role else "<|start|>" + text, allowed_special="all")
        try:
            expected.append(encoding.parse_messages_from_completion_tokens(tokens, role and Role(role)))
        except HarmonyError:
            continue
        streams.append((tokens, role))
    num_compared = 0
    for (tokens, _), [message], ours in zip(streams, expected, parsed_by_nibble(vocabulary, streams)):
        if any("repairs" in parsed for parsed in ours):
            continue
        [parsed] = ours
        if "recipient" not in parsed and message.recipient == parsed.get("content_type"):
            # The only documented difference to the official parser: a content type alone is no recipient.
            message.recipient, message.content_type = None, message.recipient
        assert parsed == without_nulls(message.to_dict()), encoding.decode(tokens)
        num_compared += 1
    assert num_compared > 1000
