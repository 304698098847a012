"""The metering fold: one usage fact for each epoch that an incarnation computed. Pure; sums nothing.

The first word on an epoch stands. A worker taken for dead is metered with its last count, as estimated;
what it tells when it comes back is the same compute and is not told twice.
"""

from processors.machine import UNSTAMPED, Event, Output, Outputs
from processors.metering.state import Meter
from processors.outputs import mark
from schemas.generated.types import Due, UsageFact, Used
from topics.errors import NotSupported
from topics.registry import FACTS_USAGE


def fold(state: Meter | None, event: Event) -> tuple[Meter | None, Outputs]:
    """One event of a generation, which is the key."""
    match event.body:
        case Used():
            return _used(state, event, event.body)
        case Due():
            forgotten = state is not None and event.append_ms >= state.forget_at_ms
            return (None if forgotten else state), ()
        case _:
            raise NotSupported(type(event.body).__name__)


def _used(meter: Meter | None, event: Event, body: Used) -> tuple[Meter, Outputs]:
    told = meter.told if meter is not None else ()
    epoch = mark(str(body.epoch), body.incarnation)
    if meter is not None and epoch in told:
        return meter, ()
    return Meter((*told, epoch), event.append_ms), (_fact(event, body),)


def _fact(event: Event, body: Used) -> Output:
    granted = body.granted_at_ms > 0
    value = UsageFact(
        event_id=UNSTAMPED,
        at=body.ended_at_ms,
        generation_id=body.generation_id,
        epoch=body.epoch,
        user_id=body.user_id,
        tier=body.tier,
        api=body.api,
        model=body.model,
        model_version=body.model_version,
        pool=body.pool,
        reason=body.reason,
        void=body.void,
        input_tokens=body.usage.input_tokens,
        cached_input_tokens=body.usage.cached_input_tokens,
        output_tokens=body.usage.output_tokens,
        estimated=body.usage.estimated,
        run_ms=max(0, body.ended_at_ms - body.granted_at_ms) if granted else 0,
    )
    return Output(topic=FACTS_USAGE, key=event.key, value=value)
