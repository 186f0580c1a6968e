"""Tests random schemas at a high temperature: complete answers are valid, and tools are called as declared.

NIBBLE_SCHEMAS=1000 requests 1000 answers instead of 100, and a fifth of that number of calls.
"""

import concurrent.futures
import json
import os
import random
import urllib.request

import jsonschema
import pytest

from test_serve import serving

NUM_SCHEMAS = int(os.environ.get("NIBBLE_SCHEMAS", 100))
MESSAGES = [{"role": "user", "content": "What is the weather in Oslo?"}]


class Schemas:
    """All are bounded, because the miniature model ends a text only where it must."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *options):
        return self.random.choice(options)

    def count(self, low, high):
        return self.random.randint(low, high)

    def string(self):
        kind = self.count(0, 4)
        if kind == 0:
            return {"type": "string", "pattern": self.pick("^[a-z]{1,6}$", "^[A-Z]{3}-[0-9]{2,4}$", "^(north|south)( (east|west))?$", "^\\+?[0-9]{3,8}$")}
        if kind == 1:
            return {"type": "string", "format": self.pick("date", "time", "uuid", "ipv4", "date-time")}
        low = self.count(0, 8)
        return {"type": "string", "minLength": low, "maxLength": low + self.count(0, 12)}

    def number(self):
        low = self.count(-1000, 1000)
        kind = self.pick("integer", "number")
        bounds = self.pick(("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum"), ("minimum", "exclusiveMaximum"))
        schema = {"type": kind, bounds[0]: low, bounds[1]: low + self.count(2, 2000)}
        if kind == "integer" and self.count(0, 3) == 0:
            schema = {"type": "integer", "minimum": 0, "maximum": 1000, "multipleOf": self.pick(2, 5, 7)}
        return schema

    def enum(self):
        values = ["red", "blue", "a b", "\"", "naïve", 1, -7, 2.5, True, None]
        return {"enum": self.random.sample(values, self.count(1, 5))}

    def array(self, depth):
        low = self.count(0, 2)
        schema = {"type": "array", "minItems": low, "maxItems": low + self.count(0, 3), "items": self.value(depth - 1)}
        if self.count(0, 3) == 0:
            schema["prefixItems"] = [self.value(depth - 1) for _ in range(self.count(1, 2))]
        return schema

    def object(self, depth):
        names = self.random.sample(["city", "degrees", "a", "b c", "größe", "x_1", "\"q\"", "list", "sky"], self.count(1, 4))
        properties = {name: self.value(depth - 1) for name in names}
        return {"type": "object", "properties": properties, "required": self.pick(names, names[: self.count(0, len(names))]), "additionalProperties": False}

    def value(self, depth):
        kinds = [self.string, self.number, self.enum, lambda: {"type": self.pick("boolean", "null")}, lambda: {"const": self.pick("x", 3, [1, "y"])}, lambda: {"type": ["integer", "null"], "minimum": 0, "maximum": 99}]
        if depth > 0:
            kinds += [lambda: self.object(depth), lambda: self.object(depth), lambda: self.array(depth), lambda: {"anyOf": [self.value(depth - 1) for _ in range(self.count(2, 3))]}, lambda: {"$ref": "#/$defs/" + self.pick("one", "two")}]
        return self.random.choice(kinds)()

    def schema(self):
        # Definitions refer to no other definitions, so that no value is deeper than the schema.
        defined = {"one": self.value(0), "two": {"type": "object", "properties": {"n": self.number()}, "additionalProperties": False}}
        return {**self.object(3), "$defs": defined}


@pytest.fixture(scope="module")
def server():
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def request_of(server):
    """The common part of requests. The end of reasoning is made likelier, because at this temperature the model may
    think without end."""
    with urllib.request.urlopen(urllib.request.Request(server.url + "/tokenize", b'{"prompt": "<|end|>"}')) as reply:
        [end] = json.load(reply)["tokens"]
    return dict(model="tiny", messages=MESSAGES, temperature=1.5, max_tokens=3000, logit_bias={str(end): 8})


def ask_all(server, requests):
    client = server.client()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda request: client.chat.completions.create(**request).choices[0], requests))


def check(text, schema):
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    errors = [error.message for error in validator.iter_errors(json.loads(text))]
    assert errors == [], f"{text}\n{json.dumps(schema)}"


def test_answers_are_of_their_schemas(server, request_of):
    schemas = [Schemas(seed).schema() for seed in range(NUM_SCHEMAS)]
    forms = [{"type": "json_schema", "json_schema": {"name": "form", "schema": schema, "strict": seed % 2 == 0}} for seed, schema in enumerate(schemas)]
    choices = ask_all(server, [{**request_of, "seed": seed, "response_format": form} for seed, form in enumerate(forms)])
    num_cut_off, num_bytes = 0, 0
    for choice, schema in zip(choices, schemas, strict=True):
        if choice.finish_reason == "length":
            num_cut_off += 1
            continue
        assert choice.finish_reason == "stop"
        check(choice.message.content, schema)
        num_bytes += len(choice.message.content)
    print(f"{NUM_SCHEMAS} schemas: {NUM_SCHEMAS - num_cut_off} valid answers of {num_bytes} bytes, {num_cut_off} cut off")
    assert num_cut_off < NUM_SCHEMAS / 10


def test_calls_are_of_their_tools(server, request_of):
    num_calls = NUM_SCHEMAS // 5
    offers = []
    for seed in range(num_calls):
        schemas = Schemas(10_000 + seed)
        offers.append({f"tool_{at}": schemas.schema() for at in range(schemas.count(1, 4))})
    requests = []
    for seed, offer in enumerate(offers):
        # Where a call is required, its arguments are constrained with and without strict.
        strict = {"strict": True} if seed % 2 else {}
        tools = [{"type": "function", "function": {"name": name, "parameters": schema, **strict}} for name, schema in offer.items()]
        requests.append({**request_of, "seed": seed, "tools": tools, "tool_choice": "required"})
    choices = ask_all(server, requests)
    num_cut_off = 0
    for choice, offer in zip(choices, offers, strict=True):
        if choice.finish_reason == "length":
            num_cut_off += 1
            continue
        assert choice.finish_reason == "tool_calls"
        [call] = choice.message.tool_calls
        check(call.function.arguments, offer[call.function.name])
    print(f"{num_calls} requests that demand a call: {num_calls - num_cut_off} valid calls, {num_cut_off} cut off")
    assert num_cut_off < num_calls / 10
