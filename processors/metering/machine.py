"""The metering machine, keyed by generation."""

from processors.machine import Event, Machine, Outputs
from processors.metering.fold import fold
from processors.metering.state import Meter
from schemas.generated.types import MeteringInbox
from topics.registry import METERING_INBOX


def over_cap(_: Event) -> Outputs:
    """There is nobody to tell."""
    return ()


def next_deadline_ms(meter: Meter) -> int:
    return meter.forget_at_ms


def metering_machine() -> Machine[Meter]:
    return Machine(
        name="metering",
        inbox=METERING_INBOX,
        envelope=MeteringInbox,
        state=Meter,
        fold=fold,
        next_deadline=next_deadline_ms,
        over_cap=over_cap,
    )
