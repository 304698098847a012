"""A machine's table of one partition as its changelog tells it. Pure.

Owns the choice among a key's records: the highest seq stands (a zombie's later, older one does not), and
where the log no longer reaches back, the record from which its fold may begin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ops.log_scan import Read
from processors import marks
from processors import stored as records
from processors.marks import Mark
from processors.stored import LIFE_BITS, OWN_PREFIX, SEQ_HEADER

_OFFSET_MASK: Final = (1 << LIFE_BITS) - 1


def offset_of(seq: int) -> int:
    """The inbox offset that a seq names."""
    return seq & _OFFSET_MASK


class Row(msgspec.Struct):
    """One key. `raw` None: the key left."""

    seq: int
    raw: bytes | None
    last_seq: int
    """Of the record that stands last, which is the one that compaction keeps."""
    last_offset: int
    base: bytes | None = None
    """The record to begin with where the log is cut."""
    base_seq: int = -1


class Table(msgspec.Struct):
    """A partition's keys, and the marks that were put over its states, first one first."""

    rows: dict[str, Row] = {}
    marks: list[Mark] = []
    count: int = 0
    """Records read."""

    @property
    def life(self) -> int:
        """Of the inbox: the adoptions of a re-created one are counted."""
        return self.marks[-1].life if self.marks else 1


def table_of(reads: Iterable[Read]) -> Table:
    """The table that these changelog records make, in their order.

    Raises:
        records.UnknownFormat: another version's record.
    """
    table = Table(rows={}, marks=[])
    for read in reads:
        table.count += 1
        if read.key.encode().startswith(OWN_PREFIX):
            _note_mark(table, read)
            continue
        row = table.rows.get(read.key)
        seq = _seq_of(read, row)
        if row is None:
            table.rows[read.key] = Row(seq, read.value, seq, read.offset)
            continue
        row.last_seq, row.last_offset = seq, read.offset
        if seq >= row.seq:
            row.seq, row.raw = seq, read.value
    return table


def note_bases(table: Table, reads: Iterable[Read], first_seq: int) -> None:
    """Finds for each key the last record below `first_seq`, or the lowest one there is."""
    for read in reads:
        row = table.rows.get(read.key)
        if row is None or read.value is None:
            continue
        seq = records.seq_of(read.value)
        below, held = seq < first_seq, 0 <= row.base_seq < first_seq
        better = seq > row.base_seq if below and held else seq < row.base_seq
        if row.base_seq < 0 or (below and not held) or (below == held and better):
            row.base, row.base_seq = read.value, seq


def _note_mark(table: Table, read: Read) -> None:
    if read.value is not None and marks.partition_of(read.key.encode()) is not None:
        mark = marks.decode(read.value)
        if not table.marks or mark.seq > table.marks[-1].seq:
            table.marks.append(mark)


def _seq_of(read: Read, before: Row | None) -> int:
    """A record without a value counts with its header's seq; without one it outranks all before it."""
    if read.value is not None:
        return records.seq_of(read.value)
    told = dict(read.headers).get(SEQ_HEADER)
    if told:
        return int(told)
    return 0 if before is None else before.seq
