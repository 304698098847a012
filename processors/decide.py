"""What an inbox record means to a machine, up to its new state. Pure.

Owns the rules around a fold: what cannot be read or does not belong is put aside with its reason, a key's
time never falls, a state over its cap is refused. The shell folds with it and an audit folds again with it,
so that both judge alike. Knows no offset and no repeat; sends nothing, keeps nothing.
"""

from typing import Any, Final

import msgspec

from processors import places, stored
from processors.machine import STATE_BYTES_MAX, Event, Machine, Outputs, State
from processors.stored import OWN_PREFIX
from topics import wire
from topics.errors import InvalidRecord, NotSupported
from topics.partition import partition_of

OWN_KEY: Final = OWN_PREFIX.decode()
"""Key of the inbox records that a shell writes for itself."""


class Decided(msgspec.Struct, frozen=True):
    """The key after an event. `outputs` are not stamped; `state_raw` is the encoded state."""

    state: Any
    state_raw: bytes
    outputs: Outputs


def envelope_of(
    machine: Machine[Any],
    key: str,
    partition: int,
    value: bytes | None,
    *,
    known: bool,
    local: bool,
) -> Any:
    """The typed record. `known` is a key that has a state: its partition was judged before.

    Raises:
        InvalidRecord: unreadable, or of another partition, or naming one that does not exist.
    """
    envelope: Any = wire.decode(machine.envelope, value)
    if key.startswith(OWN_KEY):
        return envelope
    if not places.exist(envelope.body, local):
        raise InvalidRecord("bad_partition")
    if not known and partition_of(key, machine.inbox.ring.partitions(local)) != partition:
        raise InvalidRecord("wrong_partition")
    return envelope


def event_of(envelope: Any, key: str, append_ms: int, key_ms: int) -> Event:
    """The event as a fold sees it; `key_ms` is the key's time so far, 0 for a new one."""
    return Event(
        event_id=envelope.event_id,
        key=key,
        append_ms=max(append_ms, key_ms),
        body=envelope.body,
    )


def folded(
    machine: Machine[State], rules: int, state: State | None, event: Event
) -> tuple[State | None, Outputs]:
    """The fold by a version's rules.

    Raises:
        InvalidRecord: the event's feature is not built.
    """
    try:
        return machine.by(rules)(state, event)
    except NotSupported as error:
        raise InvalidRecord("not_supported") from error


def capped(
    machine: Machine[State],
    before: State | None,
    event: Event,
    after: State | None,
    outputs: Outputs,
) -> Decided:
    """What the fold made, or the refusal in its place where the state would pass its cap.

    Raises:
        InvalidRecord: it would, and there is nobody to tell.
    """
    raw = stored.encode_state(after)
    if len(raw) <= STATE_BYTES_MAX:
        return Decided(after, raw, outputs)
    refusal = machine.over_cap(event)
    if not refusal:
        raise InvalidRecord("state_over_cap")
    # A refusal changes nothing but what was answered.
    return Decided(before, stored.encode_state(before), refusal)
