"""What the closer tells about itself. Owns the names; no label holds an id."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

ORDERS: Final = Counter(
    "milena_closer_orders_total", "Orders by kind and what became of them", ["kind", "outcome"]
)
RETRIES: Final = Counter("milena_closer_retries_total", "Tries again, by what was away", ["cause"])
LAG: Final = Histogram(
    "milena_closer_lag_seconds",
    "From an order's append to its effect; by this machine's clock, for people only",
    ["kind"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0),
)
IN_FLIGHT: Final = Gauge("milena_closer_in_flight", "Generations worked on now")
WAITING: Final = Gauge("milena_closer_waiting", "Orders read ahead and not begun")
ROWS_MISSING: Final = Counter(
    "milena_closer_rows_missing_total",
    "Ends whose worker's row was not in the store: what was shown was kept instead",
)
