"""What a machine is: one inbox, one table, one pure fold. Owns the nouns; runs nothing.

A fold is total and pure (rule F1): no clock, no randomness, no I/O, no set order. Time comes in as
the record's append time. Outputs leave the fold without an identity; `stamp` derives it (rule F5).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from topics.ids import output_id
from topics.topic import Topic

STATE_BYTES_MAX: Final = 64 * 1024
UNSTAMPED: Final = ""
"""Placeholder for `event_id` in values that a fold makes."""

State = TypeVar("State", bound=msgspec.Struct)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One record of an inbox as a fold sees it."""

    event_id: str
    key: str
    append_ms: int
    """Broker append time, epoch milliseconds, never less than the key's last one."""
    body: Any
    """The branch of the inbox envelope's union."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """One record to produce. `partition` is set only where the key does not decide it."""

    topic: Topic
    key: str
    value: Any
    partition: int | None = None


Outputs = tuple[Output, ...]


class Machine(msgspec.Struct, Generic[State], frozen=True, kw_only=True):
    """A processor seen as a state machine.

    `fold(state, event) -> (state', outputs)`; state None is a key never seen or forgotten. A fold
    raises `NotSupported` for events whose feature is not built: dead-lettered, state unchanged.
    `next_deadline(state)` is the broker time in ms at which the key wants a `Due`, or None.
    `rules` is the version of `fold`; `earlier` holds the folds of versions that may still be in force in
    a partition (rule F9). `judges_silence`: its folds end something because nothing came, so its shell
    keeps watch over the log (`live_s`).
    `over_cap(event)` is the typed, retryable refusal where the new state would pass the hard cap;
    empty where there is nobody to tell (the record is then dead-lettered).
    """

    name: str
    inbox: Topic
    envelope: type[msgspec.Struct]
    state: type[State]
    fold: Callable[[State | None, Event], tuple[State | None, Outputs]]
    next_deadline: Callable[[State], int | None]
    over_cap: Callable[[Event], Outputs]
    rules: int = 1
    earlier: Mapping[int, Callable[[State | None, Event], tuple[State | None, Outputs]]] = {}
    judges_silence: bool = False

    def knows(self, rules: int) -> bool:
        """Whether this program can decide by that version."""
        return rules == self.rules or rules in self.earlier

    def by(self, rules: int) -> Callable[[State | None, Event], tuple[State | None, Outputs]]:
        """The fold of a version."""
        return self.fold if rules == self.rules else self.earlier[rules]


def stamp(outputs: Outputs, event_id: str) -> Outputs:
    """The same outputs with their derived identities (rule F5)."""
    return tuple(
        msgspec.structs.replace(
            output,
            value=msgspec.structs.replace(
                output.value,
                event_id=output_id(event_id, f"{output.topic.name}/{kind(output.value)}", index),
            ),
        )
        for index, output in enumerate(outputs)
    )


def kind(value: Any) -> str:
    """Name of what a value says: its body's record, or its own where it is flat."""
    return type(getattr(value, "body", value)).__name__
