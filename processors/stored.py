"""What the shell remembers of one key beside its state (rule F3), in one record.

Owns the encoding and the pruning. Never folds, never sends. A record begins with a head of fixed size,
so that recovery chooses, and learns deadlines, without decoding a state.
"""

from struct import Struct
from typing import Final, Generic

import msgspec

from processors.machine import State
from processors.outgoing import Outgoing

PENDING_MAX: Final = 64
"""Uncommitted offsets of one key whose outputs are kept; one more forces a commit first."""
SEQ_HEADER: Final = "milena-seq"
"""Header of a changelog record without a value: the seq, in ASCII digits, at which the key left."""
OWN_PREFIX: Final = b"\0"
"""Keys that begin so are the shell's, of no user: a partition's mark, a beat."""
FORMAT: Final = 2

LIFE_BITS: Final = 48
"""A seq is `life << LIFE_BITS | offset`: no inbox partition ever holds so many records."""

Pending = tuple[int, tuple[Outgoing, ...]]
"""The seq of an event and what was answered to it."""
_HEAD: Final = Struct(">BQQ")
_NO_DEADLINE: Final = 2**64 - 1
_ENDED: Final = 2**64 - 2


class UnknownFormat(Exception):
    """A record of another layout: this program must not guess at it."""


class Head(msgspec.Struct, frozen=True):
    """What can be known of a record without decoding it."""

    seq: int
    deadline_ms: int | None
    """When the key wants its next `Due`, epoch milliseconds of broker time."""
    ended: bool
    """The state is None: the record stays only until no restart can meet its events."""


class Stored(msgspec.Struct, Generic[State], frozen=True):
    """One key's record: the fold's state and what was answered to events not yet committed."""

    seq: int
    """The place of the last event folded: the inbox's life and the offset in it. So it grows with every
    event of the key, and a key that left and came back stands above all that its earlier life wrote."""
    rules: int
    """The fold version that made it."""
    now_ms: int
    """The key's time: the highest append time folded, epoch milliseconds."""
    pending: tuple[Pending, ...]
    state: State | None


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    rules: int
    now_ms: int
    pending: tuple[Pending, ...]
    state: msgspec.Raw


_PACKED: Final = msgspec.msgpack.Decoder(_Packed)
_ENCODER: Final = msgspec.msgpack.Encoder()


def seq_at(life: int, offset: int) -> int:
    """The seq of an inbox place."""
    return life << LIFE_BITS | offset


def encode(stored: Stored[State], state_raw: bytes, deadline_ms: int | None) -> bytes:
    """The table value; `state_raw` is the state encoded already, so that its size could be judged."""
    wanted = _NO_DEADLINE if deadline_ms is None else deadline_ms
    if stored.state is None:
        wanted = _ENDED
    packed = _Packed(stored.rules, stored.now_ms, stored.pending, msgspec.Raw(state_raw))
    return _HEAD.pack(FORMAT, stored.seq, wanted) + _ENCODER.encode(packed)


def framed(seq: int, body: bytes) -> bytes:
    """A record of the shell's own under its head: no state, no deadline."""
    return _HEAD.pack(FORMAT, seq, _NO_DEADLINE) + body


def body_of(raw: bytes) -> memoryview:
    """What stands behind the head."""
    return memoryview(raw)[_HEAD.size :]


def encode_state(state: State | None) -> bytes:
    return _ENCODER.encode(state)


def head_of(raw: bytes) -> Head:
    """The head of a table value.

    Raises:
        UnknownFormat: another version's record, or none at all.
    """
    if len(raw) < _HEAD.size or raw[0] != FORMAT:
        raise UnknownFormat(f"a state record of format {raw[:1].hex() or 'none'}, not {FORMAT}")
    _, seq, wanted = _HEAD.unpack_from(raw)
    return Head(seq, None if wanted >= _ENDED else wanted, wanted == _ENDED)


def seq_of(raw: bytes) -> int:
    """The seq of a table value.

    Raises:
        UnknownFormat: another version's record, or none at all.
    """
    return head_of(raw).seq


def decode(raw: bytes, state_type: type[State]) -> Stored[State]:
    """The record of a table value. A broken one raises UnknownFormat or msgspec.DecodeError: fatal."""
    head = head_of(raw)
    packed = _PACKED.decode(body_of(raw))
    state = msgspec.msgpack.decode(packed.state, type=state_type | None)
    return Stored(head.seq, packed.rules, packed.now_ms, packed.pending, state)


def answered_at(stored: Stored[State], seq: int) -> tuple[Outgoing, ...]:
    """The outputs recorded for an event folded before; none where it was committed already."""
    return next((outputs for at, outputs in stored.pending if at == seq), ())


def prune(pending: tuple[Pending, ...], committed_seq: int | None) -> tuple[Pending, ...]:
    """Drops what lies below the committed place (the next one to read): it never comes again."""
    if committed_seq is None:
        return pending
    return tuple(entry for entry in pending if entry[0] >= committed_seq)
