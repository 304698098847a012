"""What the shell remembers of one key beside its state (rule F3), in one record.

Owns the encoding and the pruning. Never folds, never sends.
"""

from typing import Final, Generic

import msgspec

from processors.machine import State
from processors.outgoing import Outgoing

PENDING_MAX: Final = 64
"""Uncommitted offsets of one key whose outputs are kept; one more forces a commit first."""

Pending = tuple[int, tuple[Outgoing, ...]]


class Stored(msgspec.Struct, Generic[State], frozen=True, array_like=True):
    """One key's record: the fold's state and what was answered at offsets not yet committed."""

    offset: int
    """The last offset folded into the state."""
    seq: int
    """Grows by one with every record of the key; recovery and audits tell old from new by it."""
    now_ms: int
    """The key's time: the highest append time folded, epoch milliseconds."""
    pending: tuple[Pending, ...]
    state: State | None


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    seq: int
    now_ms: int
    pending: tuple[Pending, ...]
    state: msgspec.Raw


_PACKED: Final = msgspec.msgpack.Decoder(_Packed)
_ENCODER: Final = msgspec.msgpack.Encoder()


def encode(stored: Stored[State], state_raw: bytes) -> bytes:
    """The table value; `state_raw` is the state encoded already, so that its size could be judged."""
    return _ENCODER.encode(
        _Packed(stored.offset, stored.seq, stored.now_ms, stored.pending, msgspec.Raw(state_raw))
    )


def encode_state(state: State | None) -> bytes:
    return _ENCODER.encode(state)


def decode(raw: bytes, state_type: type[State]) -> Stored[State]:
    """The record of a table value; a broken one raises msgspec.DecodeError, which is fatal."""
    packed = _PACKED.decode(raw)
    state = msgspec.msgpack.decode(packed.state, type=state_type | None)
    return Stored(packed.offset, packed.seq, packed.now_ms, packed.pending, state)


def answered_at(stored: Stored[State], offset: int) -> tuple[Outgoing, ...]:
    """The outputs recorded for an offset folded before; none where it was committed already."""
    return next((outputs for at, outputs in stored.pending if at == offset), ())


def prune(pending: tuple[Pending, ...], committed: int | None) -> tuple[Pending, ...]:
    """Drops what lies below the committed offset (the next one to read): it never comes again."""
    if committed is None:
        return pending
    return tuple(entry for entry in pending if entry[0] >= committed)
