"""Tests nibble's tokenizer against Hugging Face's `tokenizers`, on random Unicode.

Both get the same texts, with the bundled vocabulary and with o200k. The ids must be equal, and so must the text that
random ids decode to. `tokenizers` itself builds and saves the o200k tokenizer.json from the committed rank file.
"""

import base64
import gzip
import json
import os
import random
import subprocess
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "models/tiny-gpt-oss/tokenizer.json"
NUM_TEXTS = 100_000

# Characters are drawn from one kind at a time: a text then has runs of one kind, and borders between kinds.
KINDS = {
    "lower": "abcdefghijklmnopqrstuvwxyzßàéîõüøœſ",
    "upper": "ABCDEFGHIJKLMNOPQRSTUVWXYZÄÉÎÕÜØŒİ",
    "title": "ǅǈǋᾈᾼ",
    "modifier": "ʰʲˈˑᵃꟸー々",
    "digit": "0123456789٠١٢१२३०Ⅷ½²①",
    "punctuation": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡«»–—…、。「」",
    "space": " \t\n\r\v\f\u0085\u00a0\u1680\u180e\u2000\u2003\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff",
    "plain_space": "   \n",
    "line_end": "\r\n/",
    "mark": "\u0301\u0308\u0327\u093e\u094d\u0e31\u20dd\ufe0f",
    "emoji": "😀👍🏽🇩🇪\u200d👩🔬❤\ufe0f",
    "greek": "αβγδεΑΒΓΔΕςΣ",
    "cyrillic": "абвгдеАБВГДЕёЁ",
    "hebrew_arabic": "אבגדהابتثج\u064b\u0651ـ",
    "devanagari_thai": "कखगघङनमस्तेกขคงจสวัสดี",
    "cjk": "你好世界中文日本語漢字ひらがなカタカナ한국어조선",
    "since_unicode_14": "\u1c89\u1c8a\U00010d50\U00010d70\U00010d4e\U0001e4d0\U00011f04\U00010d69\U0001e4f1\U0002ebf0\U00031350",
    "rare": "𝐀𝐛𝟙𐐀𐐨𓀀𒀀ﬁﬆﷺ\u00ad\u0000\u001f\U000e0001\ue000\U0010ffff",
}
CONTRACTIONS = ["'s", "'S", "'ſ", "'t", "'re", "'RE", "'Ve", "'m", "'ll", "'lL", "'d", "'D", "’s"]
WORDS = ["the", "Hello", "world", "HTTPServer", "iPhone", "don", "naïve", "Straße", "return", "def", "<|start|>", "123456"]


def random_text(rng):
    parts = []
    length = rng.randint(0, 60)
    while sum(map(len, parts)) < length:
        choice = rng.random()
        if choice < 0.10:
            parts.append(rng.choice(CONTRACTIONS))
        elif choice < 0.20:
            parts.append(rng.choice(WORDS))
        elif choice < 0.25:
            code_point = rng.choice([rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)])
            parts.append(chr(code_point))
        else:
            kind = KINDS[rng.choice(list(KINDS))]
            parts.append("".join(rng.choices(kind, k=rng.randint(1, 5))))
    return "".join(parts)[:length]


def tokenize(vocabulary, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    command = [os.environ["NIBBLE_BINARY"], "tokenize", str(vocabulary), "--jsonl"]
    answer = subprocess.run(command, input=lines.encode(), capture_output=True, check=False)
    assert answer.returncode == 0, answer.stderr.decode()
    answers = [json.loads(line) for line in answer.stdout.decode().split("\n")[:-1]]
    assert len(answers) == len(requests)
    return answers


def o200k_ranks():
    with gzip.open(ROOT / "tests/data/o200k_base.tiktoken.gz", "rb") as lines:
        return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}


def byte_letters():
    stays = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in stays]
    return {byte: chr(byte) for byte in stays} | {byte: chr(0x100 + place) for place, byte in enumerate(moved)}


def o200k_model():
    ranks = o200k_ranks()
    letters = byte_letters()
    text = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges = []
    for token in sorted(ranks, key=ranks.get):
        cuts = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        pairs = [(left, right) for left, right in cuts if left in ranks and right in ranks]
        merges += sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
    assert len(merges) == 446_189  # as in gpt-oss's file
    vocab = {text[token]: rank for token, rank in ranks.items()}
    return models.BPE(vocab, [(text[left], text[right]) for left, right in merges], ignore_merges=True)


@pytest.fixture(scope="module")
def o200k(tmp_path_factory):
    tokenizer = Tokenizer.from_file(str(TINY))  # the other parts of this file equal gpt-oss's
    pipeline = json.loads(tokenizer.to_str()) | {"added_tokens": []}
    pipeline["model"] |= {"vocab": {}, "merges": []}
    tokenizer = Tokenizer.from_str(json.dumps(pipeline))
    tokenizer.model = o200k_model()
    path = tmp_path_factory.mktemp("o200k") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(params=["tiny", "o200k"])
def vocabulary(request):
    return TINY if request.param == "tiny" else request.getfixturevalue("o200k")


def without_special_tokens(path):
    """Removes the added tokens: Hugging Face always recognises them, nibble only on request."""
    file = json.loads(path.read_text()) | {"added_tokens": []}
    return Tokenizer.from_str(json.dumps(file))


def assert_equal(texts, ours, theirs):
    different = [(text, a, b) for text, a, b in zip(texts, ours, theirs) if a != b]
    shown = "\n".join(f"{text!r}: nibble {a}, tokenizers {b}" for text, a, b in different[:10])
    assert not different, f"{len(different)} of {len(texts)} differ:\n{shown}"


def test_random_unicode_has_the_ids_of_hugging_face(vocabulary):
    rng = random.Random(20250805)
    texts = [random_text(rng) for _ in range(NUM_TEXTS)]
    ours = [answer["ids"] for answer in tokenize(vocabulary, [{"text": text} for text in texts])]
    theirs = [encoding.ids for encoding in without_special_tokens(vocabulary).encode_batch(texts)]
    assert_equal(texts, ours, theirs)

    back = [answer["text"] for answer in tokenize(vocabulary, [{"ids": ids} for ids in ours])]
    assert back == texts


def test_long_pieces_have_the_ids_of_hugging_face(vocabulary):
    """Words longer than any real one, for which merging runs other code than for short ones."""
    rng = random.Random(20250808)
    alphabets = ["ab", "abcdefghijklmnopqrstuvwxyz", "etaoin", " ", "-=", "\u0301\u0308", "\u4f60\u597d\u4e16", "\U0001f600\u2764"]
    texts = ["".join(rng.choices(rng.choice(alphabets), k=rng.randint(50, 3000))) for _ in range(500)]
    ours = [answer["ids"] for answer in tokenize(vocabulary, [{"text": text} for text in texts])]
    theirs = [encoding.ids for encoding in without_special_tokens(vocabulary).encode_batch(texts)]
    assert_equal(texts, ours, theirs)


def test_every_code_point_has_the_category_of_hugging_face():
    """A contraction is split off unless a letter or a mark precedes it; 000 is split off unless a digit does."""
    code_points = [*range(0xD800), *range(0xE000, 0x110000)]
    lines = [f"{chr(code_point)}'s {chr(code_point)}000" for code_point in code_points]
    texts = ["\n".join(lines[first : first + 16]) for first in range(0, len(lines), 16)]
    ours = [answer["ids"] for answer in tokenize(TINY, [{"text": text} for text in texts])]
    theirs = [encoding.ids for encoding in without_special_tokens(TINY).encode_batch(texts)]
    assert_equal(texts, ours, theirs)


def test_random_ids_have_the_text_of_hugging_face(vocabulary):
    """Most such sequences are not UTF-8: both replace each maximal ill-formed part with U+FFFD."""
    tokenizer = without_special_tokens(vocabulary)
    rng = random.Random(20250806)
    lists = [rng.choices(range(tokenizer.get_vocab_size()), k=rng.randint(0, 20)) for _ in range(10_000)]
    lists += [rng.choices(range(256), k=rng.randint(0, 8)) for _ in range(10_000)]  # single bytes
    ours = [answer["text"] for answer in tokenize(vocabulary, [{"ids": ids} for ids in lists])]
    theirs = tokenizer.decode_batch(lists, skip_special_tokens=False)
    assert_equal(lists, ours, theirs)


def test_a_rank_file_and_a_tokenizer_json_give_the_same_ids(o200k, tmp_path):
    ranks = tmp_path / "o200k_base.tiktoken"
    ranks.write_bytes(gzip.decompress((ROOT / "tests/data/o200k_base.tiktoken.gz").read_bytes()))
    rng = random.Random(20250807)
    requests = [{"text": random_text(rng)} for _ in range(10_000)]
    assert tokenize(ranks, requests) == tokenize(o200k, requests)
