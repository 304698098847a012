"""Whether the past of an inbox partition is one that this program may fold on.

Owns the refusals and their words; reads nothing and changes nothing. Each case here would otherwise drop
or contradict events in silence.
"""

from typing import Any

from processors import marks
from processors.machine import Machine
from processors.marks import Mark
from topics.errors import PastUnknown


def mark_of(
    machine: Machine[Any], partition: int, raw: bytes | None, topic_id: str, committed: int | None
) -> Mark:
    """The partition's mark out of its table value, a first one where nothing was ever folded here.

    Raises:
        PastUnknown: the changelog is gone, the inbox is another topic, or a later version folded it.
    """
    name, inbox = machine.name, machine.inbox.name
    if raw is None:
        if committed:
            raise PastUnknown(
                f"the changelog of {name} lost partition {partition}, which was folded before: "
                f"`milena topics refold {name}` folds its inbox from the start"
            )
        return marks.first(topic_id, machine.rules)
    mark = marks.decode(raw)
    if mark.topic_id != topic_id:
        raise PastUnknown(
            f"{inbox} was re-created: partition {partition} was folded as topic {mark.topic_id}, found "
            f"{topic_id}; `milena topics adopt {name}` goes on with the new one"
        )
    if not machine.knows(mark.rules):
        raise PastUnknown(
            f"partition {partition} of {inbox} is under rules {mark.rules}, and this version of {name} "
            f"knows up to {machine.rules}: start a later version"
        )
    return mark
