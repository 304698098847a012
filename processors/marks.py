"""The mark of one inbox partition: which life of the topic and which rules its states belong to.

Owns the record kept for it in the changelog, and what a difference means. A re-created topic counts its
offsets from zero again: every event would look like a repeat and be dropped; so it has a new id, and
only an operator's adoption begins the next life. New rules hold from a record in the partition on
(rule F9), so that no event is decided by two versions.
"""

from typing import Final

import msgspec

from processors.stored import OWN_PREFIX, body_of, framed

_MARK: Final = OWN_PREFIX + b"mark/"


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """One partition's. `seq` grows with every record of it, as a state's does."""

    seq: int
    topic_id: str
    """Kafka's id of the inbox, as base64 text."""
    life: int
    """1 for the first topic of the name, one more with every adoption."""
    rules: int
    """The fold version in force."""
    rules_from: int = -1
    """Offset of the record that brought it into force; events before it keep `rules_before`."""
    rules_before: int = 1
    rewind: bool = False
    """Whether folding begins at the start of the inbox, whatever was committed."""

    def rules_at(self, offset: int) -> int:
        """The fold version that decides the event at an offset of this life."""
        return self.rules if offset > self.rules_from else self.rules_before


def key_of(partition: int) -> bytes:
    """The table key of a partition's mark."""
    return _MARK + str(partition).encode()


def partition_of(key: bytes) -> int | None:
    """The partition whose mark a table key is; None for every other key."""
    return int(key[len(_MARK) :]) if key.startswith(_MARK) else None


def first(topic_id: str, rules: int) -> Mark:
    """The mark of a partition that nobody folded before."""
    return Mark(1, topic_id, 1, rules, rules_before=rules)


def adopted(mark: Mark, topic_id: str) -> Mark:
    """The mark after an operator said that the re-created topic goes on, from its start."""
    return Mark(
        mark.seq + 1, topic_id, mark.life + 1, mark.rules, rules_before=mark.rules, rewind=True
    )


def refolded(mark: Mark | None, topic_id: str, rules: int) -> Mark:
    """The mark after an operator said that the inbox is folded from its start once more, by the oldest
    rules there are: the records that brought later ones into force are in the inbox too."""
    seq, life = (1, 1) if mark is None else (mark.seq + 1, mark.life)
    return Mark(seq, topic_id, life, rules, rules_before=rules, rewind=True)


def rewound(mark: Mark) -> Mark:
    """The mark once the committed offset stands at the start."""
    return msgspec.structs.replace(mark, seq=mark.seq + 1, rewind=False)


def upgraded(mark: Mark, rules: int, offset: int) -> Mark:
    """The mark from the record at `offset` on, which brings new rules into force."""
    return Mark(mark.seq + 1, mark.topic_id, mark.life, rules, offset, mark.rules)


def encode(mark: Mark) -> bytes:
    """The table value."""
    return framed(mark.seq, msgspec.msgpack.encode(mark))


def decode(raw: bytes) -> Mark:
    """The mark of a table value; a broken one raises msgspec.DecodeError, which is fatal."""
    return msgspec.msgpack.decode(body_of(raw), type=Mark)
