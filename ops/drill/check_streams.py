"""Streams as clients saw them: no gap, no repeat, nothing of others, and the page is the row. Pure.

Owns I4 and I8. A client renders as a browser does: deltas by offset, snapshots replacing, resets dropping;
a resumed stream goes on with what the page shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from connectors.redis.layout import Entry, EntryId, parse_id
from connectors.redis.shown import ShownText
from ops.drill.evidence import TERMINALS, Call, Evidence, Shown
from ops.drill.finding import Finding, Invariant

JUMPS = frozenset({"snapshot", "reset", "retract"})
"""Events that may stand at any sequence: what they say is whole by itself."""


class _Delta(msgspec.Struct):
    offset: int


def streams(evidence: Evidence) -> Iterator[Finding]:
    """I4: ids only grow, without a gap inside an epoch, and a resume repeats nothing."""
    for one in evidence.seen:
        before = parse_id(one.after) if one.after else None
        for shown in one.shown:
            if not shown.id:
                continue
            here = parse_id(shown.id)
            wrong = None
            if before is not None and here <= before:
                wrong = f"{shown.id} after {before[0]}-{before[1]}"
            elif before is not None and not _follows(before, here, shown):
                wrong = f"a gap: {shown.id} {shown.name} after {before[0]}-{before[1]}"
            if wrong is not None:
                yield Finding(Invariant.I4, wrong, one.generation_id, one.client)
                break
            before = here


def _follows(before: EntryId, here: EntryId, shown: Shown) -> bool:
    """Gap-free inside an epoch, and growing across."""
    if shown.name in JUMPS:
        return True
    return here[1] == before[1] + 1 if here[0] == before[0] else here[1] > before[1]


def rendered_is_stored(evidence: Evidence) -> Iterator[Finding]:
    """I4: at the terminal the page of every client shows the stored text. A delta that has no place is
    allowed only where a snapshot, which says all, follows it."""
    pages: dict[tuple[str, str], ShownText] = {}
    holes: dict[tuple[str, str], str] = {}
    for one in sorted(evidence.seen, key=lambda seen: seen.began_ms):
        if one.call not in {Call.ASK, Call.RESUME} or not one.shown:
            continue
        place = (one.client, one.generation_id)
        page = pages.get(place)
        if page is None or one.after is None:
            page = pages[place] = ShownText()
            holes.pop(place, None)
        for shown in one.shown:
            if (hole := _hole(page, shown)) is not None:
                holes.setdefault(place, hole)
            if shown.name in JUMPS:
                holes.pop(place, None)
            page.take(Entry(0, 0, shown.name, shown.data))
        if one.shown[-1].name not in TERMINALS:
            continue
        if place in holes:
            yield Finding(Invariant.I4, holes[place], one.generation_id, one.client)
        row = evidence.rows.get(one.generation_id)
        if row is None:
            continue
        if page.text != row.text:
            same = len(_common(page.text, row.text))
            told = (f"rendered {len(page.text)} code points", f"stored {len(row.text)}")
            what = f"the page is not the stored text from code point {same} on"
            yield Finding(Invariant.I4, what, one.generation_id, one.client, told)


def _hole(page: ShownText, shown: Shown) -> str | None:
    """A delta that does not begin where the page ends."""
    if shown.name != "text.delta":
        return None
    offset = msgspec.json.decode(shown.data, type=_Delta).offset
    length = len(page.text)
    return None if offset == length else f"{shown.id} begins at {offset}, the page ends at {length}"


def no_foreign_data(evidence: Evidence) -> Iterator[Finding]:
    """I8: nobody gets anything of another user's generation."""
    owners = {name: row.user_id for name, row in evidence.rows.items()}
    for name, life in evidence.lives.items():
        if life.admitted is not None:
            owners.setdefault(name, life.admitted.user_id)
    for one in evidence.seen:
        owner = owners.get(one.generation_id)
        if owner is None or owner == one.user_id:
            continue
        if one.shown or (one.status is not None and 200 <= one.status < 300):
            what = f"{one.call.value} of a foreign generation got {one.status}"
            told = (f"owner {owner}", f"caller {one.user_id}", f"{len(one.shown)} events")
            yield Finding(Invariant.I8, what, one.generation_id, one.client, told)


def _common(one: str, other: str) -> str:
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return one[:at]
    return one[: min(len(one), len(other))]
