"""What a worker counts: sequences, claims, appends, ends. Numbers and fixed words only, no ids."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

RUNNING: Final = Gauge("milena_worker_running", "Sequences the engine computes.")
WAITING: Final = Gauge("milena_worker_waiting", "Requests read ahead and not claimed.", ["lane"])
PENDING: Final = Gauge("milena_worker_claims_pending", "Claims without an answer.")
ENDING: Final = Gauge("milena_worker_ending", "Answers computed, not yet stored and told.")
CLAIMS: Final = Counter("milena_worker_claims_total", "Claims by their answer.", ["answer"])
CLAIMS_REPEATED: Final = Counter("milena_worker_claims_repeated_total", "Claims sent again.")
CLAIM_SECONDS: Final = Histogram(
    "milena_worker_claim_seconds",
    "From the first claim to its answer.",
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15),
)
FIRST_TEXT_SECONDS: Final = Histogram(
    "milena_worker_first_text_seconds",
    "From the grant to the first text in the stream.",
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15),
)
PAUSED: Final = Gauge("milena_worker_paused", "Answers that wait at MILENA_INFERENCE_PAUSE_AT.")
APPENDS: Final = Counter("milena_worker_appends_total", "Appends by their answer.", ["code"])
ENDS: Final = Counter("milena_worker_ends_total", "Epochs by how they ended.", ["reason"])
RESIDUAL_TOKENS: Final = Histogram(
    "milena_worker_residual_tokens",
    "Tokens made after the worker learnt of a stop or fence.",
    buckets=(0, 1, 2, 4, 8, 16, 32),
)
OUTPUT_TOKENS: Final = Counter("milena_worker_output_tokens_total", "Tokens made.")
HEARTBEAT_AGE: Final = Gauge(
    "milena_worker_heartbeat_age_seconds", "Since the last acknowledged heartbeat was sent."
)
LIVES: Final = Counter("milena_worker_lives_total", "Incarnations this process began.")
PROBES: Final = Counter("milena_worker_probes_total", "Questions whether an epoch is current.")
SENDS_FAILED: Final = Counter(
    "milena_worker_sends_failed_total", "Records whose delivery is unknown."
)
UNREADABLE: Final = Counter(
    "milena_worker_unreadable_total", "Records that could not be read.", ["topic"]
)
STORE_WAITS: Final = Counter("milena_worker_store_waits_total", "Final rows that had to wait.")
