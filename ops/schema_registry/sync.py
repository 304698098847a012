"""Brings a registry to hold the released schemas under their ids, or says why it cannot.

Looks first, refuses before it writes where an id is taken, writes what is missing in the order of
ids, and looks again: nothing is believed because it was sent. Harmless twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ops.schema_registry.apicurio import archive
from ops.schema_registry.client import RegistryClient, RegistryRefused, missing_ids
from ops.schema_registry.wanted import MENDABLE, Finding, Subject, What, compare, text_of
from schemas.release import Release

SHOWN_MAX = 3


class Mismatch(Exception):
    """The registry holds what cannot be put right by adding to it."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        shown = "; ".join(str(finding) for finding in findings[:SHOWN_MAX])
        more = len(findings) - SHOWN_MAX
        super().__init__(f"{shown}; and {more} more" if more > 0 else shown)
        self.findings = tuple(findings)


class Synced(msgspec.Struct, frozen=True):
    """What was done. `registered` has subject and id."""

    registered: tuple[tuple[str, int], ...] = ()
    compatibility_set: tuple[str, ...] = ()


def check(client: RegistryClient, wanted: Sequence[Subject]) -> tuple[Finding, ...]:
    """Every difference, nothing changed."""
    return compare(wanted, client.held(wanted))


def sync(client: RegistryClient, wanted: Sequence[Subject]) -> Synced:
    """Fills and verifies.

    Raises:
        Mismatch: it differs in a way that adding cannot mend, before or after.
        RegistryRefused: an id is held by another schema, or a schema is refused.
        RegistryAway: no answer.
    """
    findings = check(client, wanted)
    _refuse([finding for finding in findings if finding.what not in MENDABLE])
    missing = sorted(
        ((f.release, f.subject) for f in findings if f.release is not None),
        key=lambda pair: pair[0].id,
    )
    registered = _register(client, missing) if missing else []
    present = client.held(wanted) if missing else None
    levels = compare(wanted, present) if present is not None else findings
    changed = [finding for finding in levels if finding.what is What.COMPATIBILITY]
    for finding in changed:
        client.set_compatibility(finding.subject, finding.expected)
    if missing or changed:
        _refuse(check(client, wanted))
    return Synced(tuple(registered), tuple(finding.subject for finding in changed))


def _refuse(findings: Sequence[Finding]) -> None:
    if findings:
        raise Mismatch(findings)


def _register(
    client: RegistryClient, missing: Sequence[tuple[Release, str]]
) -> list[tuple[str, int]]:
    distinct = {release.id: release for release, _ in missing}
    free = missing_ids(distinct.values(), client)
    pinned = client.is_apicurio()
    if pinned and free:
        client.take(archive([(release.id, text_of(release)) for release in free]))
    done = []
    for release, subject in missing:
        given = _one(client, subject, release, pinned=pinned)
        if given != release.id:
            found, expected = f"id {given}", f"id {release.id} for {release.record}"
            raise Mismatch([Finding(subject, What.ID, found, expected)])
        done.append((subject, given))
    return done


def _one(client: RegistryClient, subject: str, release: Release, *, pinned: bool) -> int:
    text = text_of(release)
    if pinned or not client.set_mode(subject, "IMPORT"):
        return client.register(subject, text)
    try:
        return client.register(subject, text, release.version, release.id)
    finally:
        if not client.set_mode(subject, "READWRITE"):
            raise RegistryRefused(f"{subject} is left in mode IMPORT: set it to READWRITE")
