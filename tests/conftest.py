"""Hypothesis without its clocks: how long an example takes says nothing on a machine that is shared.

Owns the one profile. Its first text alone takes a second in a fresh checkout.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")
