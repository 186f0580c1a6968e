"""Tests compiled JSON Schemas against the Python package `jsonschema` and the official test suite, which is part of its
source package.

Runs build/release/tests/grammar_check (tests/grammar/check_main.cpp).
"""

import json
import os
import random
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = Path(os.environ["NIBBLE_BINARY"]).parent / "tests/grammar_check"
VERSION = "4.26.0"

# nibble enforces formats, while these files expect that formats are ignored; optional/format has tests for
# enforcing them. nibble also enforces the keywords it knows in schemas whose custom vocabulary has no
# validation.
OTHER_MEANING = {"format.json", "vocabulary.json"}


class Checker:
    def __init__(self):
        self.process = subprocess.Popen([CHECK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def checker():
    checker = Checker()
    yield checker
    checker.process.stdin.close()
    assert checker.process.wait() == 0


@pytest.fixture(scope="session")
def suite():
    """Returns the folder of the official suite's tests for draft 2020-12."""
    folder = ROOT / "build/json_schema_suite"
    tests = folder / f"jsonschema-{VERSION}/json/tests/draft2020-12"
    if not tests.exists():
        # "--no-binary :all:" would also build everything needed to read the package, which takes minutes.
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "jsonschema", "-d", folder]
        done = subprocess.run([*command, f"jsonschema=={VERSION}"], capture_output=True, text=True)
        if done.returncode != 0:
            assert os.environ.get("CI") != "true", done.stderr
            pytest.skip("the source package of jsonschema, which has the suite, could not be downloaded")
        with tarfile.open(folder / f"jsonschema-{VERSION}.tar.gz") as package:
            package.extractall(folder, [m for m in package.getmembers() if "/json/tests/draft2020-12/" in m.name])
    return tests


def cases_of(suite):
    for file in sorted(suite.glob("*.json")) + sorted(suite.glob("optional/format/*.json")):
        for case in json.loads(file.read_text()):
            yield file, case


def test_the_official_suite_is_answered_right_wherever_it_compiles(checker, suite):
    num_cases = num_compiled = num_tests = 0
    wrong = []
    for file, case in cases_of(suite):
        if file.name in OTHER_MEANING:
            continue
        num_cases += 1
        answer = checker.ask(schema=case["schema"], instances=[test["data"] for test in case["tests"]])
        if "no text satisfies the grammar or schema" in answer.get("error", ""):  # correct if no value is valid
            answer = {"accepted": [False] * len(case["tests"]), "warnings": []}
        if "error" in answer:
            assert answer["error"].startswith("schema: '"), "a refusal names the keyword"
            continue
        # Warnings name what is not enforced.
        is_wider = any("format" in warning for warning in answer["warnings"])
        num_compiled += 1
        for test, accepted in zip(case["tests"], answer["accepted"], strict=True):
            num_tests += 1
            if accepted != test["valid"] and not (accepted and is_wider):
                wrong.append((file.name, case["description"], test["description"], test["data"]))
    print(f"{num_compiled} of {num_cases} schemas compiled, {num_tests} tests")
    assert wrong == []
    assert num_compiled >= 0.55 * num_cases


class Schemas:
    """Random schemas, and values at and near their limits."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, *choices):
        return self.random.choice(choices)

    def some(self, probability=0.5):
        return self.random.random() < probability

    def schema(self, depth=3):
        leaf = [self.string, self.integer, self.number, self.enum, self.scalar_type, self.formatted]
        inner = [self.array, self.object, self.object, self.any_of, self.all_of, self.one_of, self.condition, self.negation]
        return self.random.choice(leaf + inner * 2 if depth > 0 else leaf)(depth)

    def string(self, depth):
        schema = {"type": "string"}
        if self.some():
            schema["minLength"] = self.random.randint(0, 3)
        if self.some():
            schema["maxLength"] = self.random.randint(3, 12)
        if self.some(0.4):
            schema["pattern"] = self.one("^[a-z]+$", "b", "^(ab|c)*$", "[0-9]{2,}", "^\\S+$", "^.{2,5}$", "[a-z][^a-z]")
        return schema

    def formatted(self, depth):
        return {"type": "string", "format": self.one("date", "date-time", "time", "email", "ipv4", "ipv6", "uuid", "uri", "duration")}

    def integer(self, depth):
        schema = {"type": "integer"}
        if self.some():
            schema[self.one("minimum", "exclusiveMinimum")] = self.random.randint(-150, 100)
        if self.some():
            schema[self.one("maximum", "exclusiveMaximum")] = self.random.randint(120, 3000)
        if self.some(0.3):
            schema["multipleOf"] = self.random.randint(1, 13)
        return schema

    def number(self, depth):
        schema = {"type": "number"}
        if self.some():
            schema[self.one("minimum", "exclusiveMinimum")] = self.random.randint(-800, 100) / 8
        if self.some():
            schema[self.one("maximum", "exclusiveMaximum")] = self.random.randint(120, 3000) / 16
        return schema

    def enum(self, depth):
        values = ["red", "light green", "", "a\"b\\", None, True, 0, -12, 2.5, [1, "x"], {"k": None}, "é世😀"]
        return {"enum": self.random.sample(values, self.random.randint(1, 6))}

    def scalar_type(self, depth):
        return {"type": self.random.sample(["null", "boolean", "integer", "string", "number"], self.random.randint(1, 3))}

    def array(self, depth):
        schema = {"type": "array", "items": self.schema(depth - 1)}
        if self.some():
            schema["minItems"] = self.random.randint(0, 2)
        if self.some():
            schema["maxItems"] = self.random.randint(2, 4)
        if self.some(0.3):
            schema["prefixItems"] = [self.schema(depth - 1) for _ in range(self.random.randint(1, 2))]
        if self.some(0.2):
            schema["contains"] = self.one(self.scalar_type, self.enum, self.integer)(0)
        if self.some(0.2):
            schema["items"] = self.one(self.enum, lambda d: {"type": ["boolean", "null"]}, lambda d: {"type": "integer", "minimum": -2, "maximum": 2})(0)
            schema["uniqueItems"] = True
        if self.some(0.2):
            schema["unevaluatedItems"] = self.one(False, {"type": "string"})
            if self.some():
                del schema["items"]
        return schema

    def object(self, depth):
        names = self.random.sample(["a", "b", "name", "na\"me", "x y", "ü", "x_1"], self.random.randint(0, 4))
        schema = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
        if self.some():
            schema["required"] = self.random.sample(names, self.random.randint(0, len(names)))
        if self.some(0.6):
            schema["additionalProperties"] = self.one(False, False, True, {"type": "integer"})
        if self.some(0.2):
            schema["patternProperties"] = {"^x_": {"type": "boolean"}, "y$": {}}
        if self.some(0.2):
            schema["propertyNames"] = {"maxLength": 4}
        if self.some(0.2):
            schema["maxProperties"] = self.random.randint(3, 5)
        if self.some(0.2):
            schema["dependentRequired"] = {self.one("a", "b", "x_1"): self.random.sample(["name", "b", "other"], self.random.randint(0, 2))}
        if self.some(0.15):
            schema["dependentSchemas"] = {self.one("a", "name"): self.one({"required": ["b"]}, {"maxProperties": 2}, {"properties": {"b": {"type": "null"}}})}
        if self.some(0.2):
            schema["unevaluatedProperties"] = self.one(False, {"type": "integer"})
        if self.some(0.2):  # only one undeclared member counts
            schema["minProperties"] = self.random.randint(0, 2 if schema.get("additionalProperties") is False else 1)
        return schema

    def negated_object(self, depth):
        """Without an upper limit on members, because its negation is a lower limit."""
        schema = self.object(depth)
        for keyword in ("maxProperties", "dependentSchemas"):
            schema.pop(keyword, None)
        return schema

    def any_of(self, depth):
        return {"anyOf": [self.schema(depth - 1) for _ in range(self.random.randint(1, 3))]}

    def all_of(self, depth):
        return {"allOf": [self.object(depth - 1), self.object(depth - 1)]}

    def one_of(self, depth):
        return {"oneOf": [self.schema(depth - 1) for _ in range(2)]}

    def condition(self, depth):
        schema = self.object(depth)
        schema["properties"]["kind"] = {"enum": ["x", "y", 1]}
        schema["if"] = {"properties": {"kind": self.one({"const": "x"}, {"enum": ["x", 1]})}, "required": ["kind"]}
        schema["then"] = {"required": [self.one("a", "b")]}
        if self.some():
            schema["else"] = {"properties": {"name": {"type": "string"}}}
        return schema

    def negation(self, depth):
        negated = self.one(self.scalar_type, self.enum, self.integer, lambda d: {"pattern": "a"}, lambda d: {"required": ["a"]}, self.array, self.negated_object)(self.one(0, 1))
        return {"allOf": [self.one(self.scalar_type, self.string, self.integer, self.object, self.array)(depth - 1), {"not": negated}]}

    def value(self, depth=3):
        kinds = [lambda: self.one("", "a", "ab", "abc", "red", "x y", "99", "é世😀", "2024-02-29", "\"\\\nz", "aaaaaaaaaaaa"),
                 lambda: self.random.randint(-160, 160), lambda: self.random.randint(-3, 40) / 8,
                 lambda: self.one(None, True, False, 0, 1, -1, 3000, 1.5)]
        if depth > 0:
            kinds += [lambda: [self.value(depth - 1) for _ in range(self.random.randint(0, 4))],
                      lambda: {name: self.value(depth - 1) for name in self.random.sample(
                          ["a", "b", "name", "na\"me", "kind", "x_1", "zy", "other"], self.random.randint(0, 4))}]
        return self.random.choice(kinds)()


def with_leap_seconds():
    """The package's format checks know neither leap seconds nor the year 0. This checks them as another second and
    year."""
    checker = jsonschema.FormatChecker()
    checker.checkers = dict(jsonschema.Draft202012Validator.FORMAT_CHECKER.checkers)
    for name in ("date", "time", "date-time"):
        function, raises = checker.checkers[name]

        def check(text, function=function):
            if isinstance(text, str):
                text = re.sub(r"^0000-", "2000-", re.sub(r":60(?=[.Zz+-])", ":59", text))
            return function(text)

        checker.checkers[name] = (check, raises)
    return checker


FORMATS = with_leap_seconds()


def validator(schema):
    return jsonschema.Draft202012Validator(schema, format_checker=FORMATS)


def ask_or_refusal(checker, **question):
    """Returns None if the schema is refused, which must have a reason."""
    answer = checker.ask(**question)
    if "error" not in answer:
        return answer
    assert answer["error"].startswith("schema: '") or "no text satisfies the grammar or schema" in answer["error"], answer["error"]
    return None


def leaves_out(answer):
    return any("excluded" in warning for warning in answer["warnings"])


def test_arguments_of_tools_are_held_to_all_that_can_be_enforced(checker):
    """No schema is refused and no valid object is rejected. If nothing is dropped, no invalid object is accepted."""
    schemas = Schemas(3)
    num_objects = num_dropped = 0
    for _ in range(600):
        schema = schemas.object(2)
        schema["properties"]["b"] = schemas.one({"uniqueItems": True}, {"contains": {"type": "string"}, "maxContains": 1}, {"pattern": "(?=a)"}, schemas.schema(1))
        schema["not"] = schemas.one(schemas.negated_object(1), {"properties": {"a": {"format": "date"}}}, {"required": ["x"]})
        if schemas.some():
            schema = {"anyOf": [schema, schemas.schema(1)]}
        if "format" in json.dumps(schema) and '"format": "date"}' not in json.dumps(schema):
            continue
        values = [value for value in (schemas.value() for _ in range(40)) if isinstance(value, dict)]
        answer = checker.ask(schema=schema, instances=values, drops=True)
        check = validator(schema)
        is_dropped = any("enforced" in warning for warning in answer["warnings"])
        num_dropped += is_dropped
        for value, accepted in zip(values, answer["accepted"], strict=True):
            valid = check.is_valid(value)
            num_objects += 1
            assert accepted == valid or (accepted and is_dropped) or (valid and leaves_out(answer)), f"{json.dumps(value)}\n{json.dumps(schema)}"
    print(f"{num_objects} objects, {num_dropped} schemas lost a keyword")
    assert num_objects >= 2000 and num_dropped >= 100


def test_what_masks_allow_is_valid(checker):
    schemas = Schemas(1)
    num_compiled = num_samples = 0
    for seed in range(1000):
        schema = schemas.schema()
        answer = ask_or_refusal(checker, schema=schema, samples=5, seed=seed)
        if answer is None:
            continue
        num_compiled += 1
        check = validator(schema)
        for text in answer["samples"]:
            num_samples += 1
            errors = [error.message for error in check.iter_errors(json.loads(text))]
            assert errors == [], f"{text}\n{json.dumps(schema)}"
    print(f"{num_compiled} of 1000 schemas compiled, {num_samples} texts")
    assert num_compiled >= 750 and num_samples >= 2000


def test_values_are_accepted_as_the_validator_accepts_them(checker):
    """In both directions: valid values are accepted, too. Without formats, whose checks in the package are wider or
    narrower than the standards, and except where a warning says that values are left out."""
    schemas = Schemas(2)
    num_valid = num_values = 0
    for _ in range(1000):
        schema = schemas.schema()
        if "format" in json.dumps(schema):
            continue
        values = [schemas.value() for _ in range(40)]
        answer = ask_or_refusal(checker, schema=schema, instances=values)
        if answer is None:
            continue
        check = validator(schema)
        for value, accepted in zip(values, answer["accepted"], strict=True):
            valid = check.is_valid(value)
            assert accepted == valid or (valid and leaves_out(answer)), f"{json.dumps(value)}\n{json.dumps(schema)}"
            num_valid += valid
            num_values += 1
    print(f"{num_valid} of {num_values} values were valid")
    assert num_valid >= 2000 and num_values - num_valid >= 10000


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-s"]))
