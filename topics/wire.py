"""Bytes to typed values and back: Confluent framing (0x00, 4-byte schema id, Avro) with fastavro.

Owns the codec of every record. Never asks the registry: ids come from the committed snapshot
(`schemas/released/ids.json`), so nothing waits for a registry before the first answer.
"""

import io
import struct
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from schemas.catalogue import without_logical_types
from schemas.release import Release, releases
from topics.errors import InvalidRecord

Value = TypeVar("Value", bound=msgspec.Struct)

_HEADER: Final = struct.Struct(">BI")
_BODY: Final = "body"


@cache
def _current() -> dict[str, tuple[bytes, Any]]:
    """Record name -> (frame header, parsed schema) of its newest release."""
    return {
        record: (_HEADER.pack(0, versions[-1].id), _by_id()[versions[-1].id][1])
        for record, versions in releases().items()
    }


@cache
def _by_id() -> dict[int, tuple[str, Any]]:
    """Schema id -> (record name, parsed schema), every release ever made.

    Each schema is parsed once: one read with itself needs no resolution, which takes twice as long.
    """
    return {
        release.id: (record, _parsed(release))
        for record, versions in releases().items()
        for release in versions
    }


def _parsed(release: Release) -> Any:
    return parse_schema(without_logical_types(release.schema))


def encode(value: msgspec.Struct) -> bytes:
    """One framed record. The value's type names its schema."""
    header, schema = _current()[type(value).__name__]
    plain = msgspec.to_builtins(value, builtin_types=(bytes,))
    body = plain.get(_BODY)
    if isinstance(body, dict) and "-type" in body:
        # The branch by name: the writer would else try the value against each branch in turn.
        plain[_BODY] = (body.pop("-type"), body)
    out = io.BytesIO()
    out.write(header)
    schemaless_writer(out, schema, plain)
    return out.getvalue()


def decode(expected: type[Value], raw: bytes | None) -> Value:
    """The typed value of one framed record.

    Raises:
        InvalidRecord: null value, foreign framing, unknown schema id, another record, broken Avro.
    """
    if not raw:
        raise InvalidRecord("null_value")
    if len(raw) < _HEADER.size or raw[0] != 0:
        raise InvalidRecord("not_framed")
    _, schema_id = _HEADER.unpack_from(raw)
    found = _by_id().get(schema_id)
    if found is None:
        raise InvalidRecord("unknown_schema_id")
    record, writer = found
    if record != expected.__name__:
        raise InvalidRecord("other_record")
    reader = _current()[record][1]
    stream = io.BytesIO(raw)
    stream.seek(_HEADER.size)
    try:
        plain = schemaless_reader(
            stream,
            writer,
            None if writer is reader else reader,
            return_record_name=True,
            return_record_name_override=True,
        )
        if stream.read(1):
            raise InvalidRecord("trailing_bytes")
        body = plain.get(_BODY)
        if isinstance(body, tuple):  # an envelope: put the branch's name where the type wants it
            plain[_BODY] = {"-type": body[0], **body[1]}
        return msgspec.convert(plain, expected)
    except (EOFError, IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidRecord("broken_avro") from error
