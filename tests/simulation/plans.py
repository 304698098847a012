"""What may go wrong, how often and for how long. Data only."""

from typing import Final

import msgspec


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One mixture of faults. Rates are per second of virtual time, chances per event."""

    name: str
    instances: int = 2
    """Processes of each machine, at most."""
    work_s: float = 16.0
    """New requests come for this long, faults for `faults_s`."""
    faults_s: float = 26.0
    ask_pause_s: float = 0.9
    """Mean pause between two requests of one edge."""
    fault_pause_s: float = 1.6
    """Mean pause between two faults of the nemesis."""
    weights: dict[str, int] = {}
    """Fault -> weight; a fault not named does not happen."""
    lost_reply: float = 0.0
    """Appended, and the sender never learns it."""
    late_reply: float = 0.0
    refused: float = 0.0
    """Not appended, and the sender is told that it is unknown."""
    stray: float = 0.0
    """The sender of a state dies, its successor takes over, and then the state arrives."""
    killed_at_append: float = 0.0
    """The sender dies between an append and its answer."""
    settle_s: float = 150.0
    """After the last fault everything must have ended within this."""


DEFAULT: Final = Plan(
    name="default",
    weights={
        "kill": 6,
        "kill at a step": 6,
        "kill two": 2,
        "pause": 4,
        "zombie": 3,
        "stall": 2,
        "rebalance": 3,
        "compact": 3,
        "duplicate": 5,
        "gap": 2,
        "slow": 3,
        "poison": 1,
        "flood": 1,
    },
    lost_reply=0.002,
    late_reply=0.004,
    refused=0.001,
    killed_at_append=0.003,
    stray=0.002,
)
CALM: Final = Plan(name="calm", faults_s=0.0)
PARTS: Final = Plan(name="parts", work_s=24.0, faults_s=32.0, ask_pause_s=0.4, fault_pause_s=0.9)
"""Nothing befalls machines and broker; worker, closer, edge, Redis and the store are struck often."""
WHOLE_CALM: Final = Plan(name="whole-calm", faults_s=0.0)
PLANS: Final = {plan.name: plan for plan in (DEFAULT, CALM, PARTS, WHOLE_CALM)}
WHOLE: Final = {PARTS.name, WHOLE_CALM.name}
"""Plans of the whole product: real worker, closer and edge instead of models of them."""
