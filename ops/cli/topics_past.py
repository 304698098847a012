"""`milena topics adopt|refold`: lets a machine go on where its past is not the one it folded.

Writes marks into the machine's changelog, one a partition, and nothing else; the machine reads them at
its next start. Decides by `processors.marks`; touches no inbox and no committed offset.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.console import AsJson, CommandError, ExitCode, Yes, confirm, note, result, working

if TYPE_CHECKING:
    from ops.cli.topics_changelog import Changelog
    from processors.marks import Mark

Named = Annotated[str, typer.Argument(metavar="MACHINE", help="As in `python -m processors`.")]


def adopt(machine: Named, yes: Yes = False, as_json: AsJson = False) -> None:
    """Go on with a re-created inbox. Events of the old topic that were not folded are gone."""
    from processors import marks

    log = _changelog(machine)
    with working("asking the broker"):
        found, now = log.marks(), log.inbox_id()
    _require_marks(log, found)
    wanted = {
        partition: marks.adopted(mark, now)
        for partition, mark in found.items()
        if mark.topic_id != now
    }
    words = f"{log.machine.inbox.name} goes on as topic {now}, from its start"
    _write(log, wanted, f"milena topics adopt {machine}", words, yes=yes, as_json=as_json)


def refold(machine: Named, yes: Yes = False, as_json: AsJson = False) -> None:
    """Fold a machine's inbox from its start once more, where its changelog was lost.

    What it tells again has the same identities, so that consumers drop it. States older than the
    inbox's retention cannot come back.
    """
    from processors import marks

    log = _changelog(machine)
    with working("asking the broker"):
        found, now = log.marks(), log.inbox_id()
    oldest = min([log.machine.rules, *log.machine.earlier])
    wanted = {
        partition: marks.refolded(found.get(partition), now, oldest)
        for partition in range(log.partitions)
    }
    words = f"{log.machine.inbox.name} is folded from its start, {log.partitions} partitions"
    _write(log, wanted, f"milena topics refold {machine}", words, yes=yes, as_json=as_json)


def _changelog(machine: str) -> Changelog:
    from ops.cli import environment
    from ops.cli.topics_changelog import Changelog
    from processors.machines import MACHINES

    if machine not in MACHINES:
        raise CommandError(
            f"no machine is called {machine}; there are {', '.join(MACHINES)}",
            "milena topics adopt --help",
            ExitCode.BAD_SETTING,
        )
    settings = environment.kafka(os.environ)
    return Changelog(settings.bootstrap, settings.local, MACHINES[machine](os.environ))


def _require_marks(log: Changelog, found: Mapping[int, Mark]) -> None:
    missing = [one for one in range(log.partitions) if one not in found]
    if missing and found:
        raise CommandError(
            f"the changelog of {log.machine.name} lost partitions {missing}",
            f"milena topics refold {log.machine.name}",
            ExitCode.MISMATCH,
        )
    if missing:
        raise CommandError(
            f"{log.machine.name} never folded anything here; there is nothing to adopt",
            "milena topics list",
            ExitCode.REFUSED,
        )


def _write(
    log: Changelog,
    wanted: Mapping[int, Mark],
    command: str,
    words: str,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    if not wanted:
        result({"written": []}, ["nothing to do"], as_json=as_json)
        return
    if not yes:
        note(words)
        confirm(command)
    with working("writing marks"):
        log.write(wanted)
    told = f"{words}; {log.machine.name} takes it up at its next start"
    result({"written": sorted(wanted)}, [f"done: {told}"], as_json=as_json)
