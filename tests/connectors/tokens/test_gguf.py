"""The reader of GGUF metadata, on files made here and on the packaged one."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.tokens.chatml import packaged_weights
from connectors.tokens.gguf import GgufError, parse_metadata, read_metadata


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def number(value: int) -> bytes:
    return struct.pack("<I", 4) + struct.pack("<I", value)


def array(values: list[str]) -> bytes:
    head = struct.pack("<IIQ", 9, 8, len(values))
    return head + b"".join(map(text, values))


def file(entries: dict[str, bytes], version: int = 3, magic: bytes = b"GGUF") -> bytes:
    head = magic + struct.pack("<IQQ", version, 7, len(entries))
    return head + b"".join(text(key) + value for key, value in entries.items())


@given(
    st.dictionaries(
        st.text(max_size=9), st.integers(0, 2**32 - 1) | st.lists(st.text()), max_size=5
    )
)
def test_what_was_written_is_read(entries: dict[str, Any]) -> None:
    data = file({k: number(v) if isinstance(v, int) else array(v) for k, v in entries.items()})
    assert parse_metadata(data + b"tensors") == entries


@given(st.integers(0, 60))
def test_a_file_that_ends_early_is_refused(length: int) -> None:
    data = file({"a": number(1), "tokens": array(["x", "y"])})
    with pytest.raises(GgufError):
        parse_metadata(data[: min(length, len(data) - 1)])


@pytest.mark.parametrize(
    "data",
    [
        file({}, magic=b"GGML"),
        file({}, version=1),
        file({"a": struct.pack("<I", 99)}),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
        file({"a": struct.pack("<IIQ", 9, 4, 2**62)}),
        file({"a": struct.pack("<IQ", 8, 2**63)}),
    ],
)
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    with pytest.raises(GgufError):
        parse_metadata(data)


def test_the_packaged_file_is_read(tmp_path: Path) -> None:
    found = read_metadata(packaged_weights())
    assert found["tokenizer.ggml.pre"] == "smollm"
    assert len(found["tokenizer.ggml.tokens"]) == found["llama.vocab_size"]
    empty = tmp_path / "empty.gguf"
    empty.write_bytes(b"GGUF")
    with pytest.raises(GgufError):
        read_metadata(empty)
