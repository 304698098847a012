"""Our token ids against the engine's own tokenizer, asked over a socket of the test's own."""

import json
import random
import socket
from collections.abc import Callable, Iterator
from http.client import HTTPConnection

import pytest

from connectors.tokens import Message, tokenizer_for
from connectors.tokens.chatml import SYSTEM_PROMPT, packaged_weights
from inference.engines.llama_native import load_library

Tokenize = Callable[[str, bool], list[int]]

PIECES = [
    *("a", "B", " ", "  ", "\n", "\t", "\r\n", "'s", "'S", "'ll", "’s", "1", "23", "٣", "²", "Ⅷ"),
    *("é", "e\u0301", "那", "个", "😀", "👨\u200d👩\u200d👧", "🇩🇪", "ا", "क्", "ﬁ", "\u3000"),
    *("\u00a0", "\u2028", "\u0085", "\u200d", "\ufeff", "\ufffd", "!", "?!", "_", "-", "hello"),
    *("<|im_end|>", "<|im_start|>", "<|endoftext|>", "def f(x):", "    return", "http://x.y/z?q=1"),
]


class Unix(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


@pytest.fixture(scope="module")
def engine_tokenize(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tokenize]:
    try:
        xllamacpp = load_library()
    except ImportError:
        pytest.skip("xllamacpp is not installed")
    params = xllamacpp.CommonParams()
    params.model.path = str(packaged_weights())
    params.n_ctx, params.verbosity, params.warmup, params.fit_params = 256, -1, False, False
    path = tmp_path_factory.mktemp("llama") / "s.sock"
    params.hostnames = [str(path)]
    server = xllamacpp.Server(params)
    connection = Unix(str(path))

    def tokenize(text: str, marks: bool) -> list[int]:
        body = {"content": text, "add_special": False, "parse_special": marks}
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/tokenize", json.dumps(body), headers)
        ids: list[int] = json.loads(connection.getresponse().read())["tokens"]
        return ids

    yield tokenize
    connection.close()
    del server


def test_prompts_equal_the_models_own_template(engine_tokenize: Tokenize) -> None:
    turns = [
        Message("user", "Explain TCP in two sentences, please."),
        Message("assistant", " It is a protocol.\n\nIt keeps order. 那个 😀 2024"),
        Message("user", "\n  def f(x):\n    return x  # thanks!\t"),
    ]
    template = f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n"
    for turn in turns:
        template += f"<|im_start|>{turn.role}\n{turn.content}<|im_end|>\n"
    template += "<|im_start|>assistant\n"
    assert tokenizer_for("smollm2").encode_prompt(turns) == engine_tokenize(template, True)


def test_counts_of_mixed_text_equal_the_engines(engine_tokenize: Tokenize) -> None:
    chance = random.Random(20261130)
    tokenizer = tokenizer_for("smollm2")
    for _ in range(1_500):
        text = "".join(chance.choices(PIECES, k=chance.randrange(1, 12)))
        assert tokenizer.count_text(text) == len(engine_tokenize(text, False)), ascii(text)


def test_every_kind_of_character_is_counted_as_the_engine_does(engine_tokenize: Tokenize) -> None:
    tokenizer = tokenizer_for("smollm2")
    points = [*range(0x20, 0x500), *range(0x500, 0xD800, 29), *range(0xE000, 0x20000, 83)]
    for start in range(0, len(points), 8):
        text = " ".join(f"a{chr(point)}1" for point in points[start : start + 8])
        assert tokenizer.count_text(text) == len(engine_tokenize(text, False)), ascii(text)
