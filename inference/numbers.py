"""Orders come at least once and may come late: each generation's highest number holds.

Owns that one rule for the control records of a worker. Bounded; knows no topic.
"""

from collections import OrderedDict

from schemas.generated.types import Current, StopOrder, WorkerControl


class HighestNumber:
    """The highest control number seen of the last `generations_max` generations."""

    def __init__(self, generations_max: int = 16_384) -> None:
        self._generations_max = generations_max
        self._highest: OrderedDict[str, int] = OrderedDict()

    def news(self, control: WorkerControl) -> bool:
        """True where the order holds.

        An answer to a claim holds while the claim waits, whatever its number: it may be given
        again. `Fenced` always holds: an epoch that is over stays over, and a machine that has
        forgotten the run has no number left to give.
        """
        highest = self._highest.get(control.generation_id, -1)
        if control.number <= highest:
            return not isinstance(control.body, StopOrder | Current)
        self._highest[control.generation_id] = control.number
        self._highest.move_to_end(control.generation_id)
        while len(self._highest) > self._generations_max:
            self._highest.popitem(last=False)
        return True
