"""What a machine tells about itself. Owns the names; no label ever holds an id of a person or key."""

from prometheus_client import Counter, Gauge, Histogram

_EVENTS = Counter("milena_machine_events_total", "Events folded", ["machine", "kind"])
_REPEATS = Counter("milena_machine_repeats_total", "Events met again at an offset", ["machine"])
_DEAD = Counter("milena_machine_dead_letters_total", "Records dead-lettered", ["machine", "reason"])
_FORCED = Counter("milena_machine_forced_commits_total", "Commits forced by a bound", ["machine"])
_PUT_AGAIN = Counter(
    "milena_machine_put_again_total", "State records put again behind a stranger's", ["machine"]
)
_AHEAD = Gauge("milena_machine_ahead", "Events folded and not yet acknowledged", ["machine"])
_FOLD = Histogram(
    "milena_machine_fold_seconds",
    "Time in the fold",
    ["machine"],
    buckets=(1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 5e-2),
)
_STATE = Histogram(
    "milena_machine_state_bytes",
    "Bytes of a state record",
    ["machine"],
    buckets=(256, 1_024, 4_096, 16_384, 65_536, 262_144),
)
_READY = Gauge("milena_machine_ready", "1 while the machine folds", ["machine"])

_RECOVERY = Gauge("milena_machine_recovery_seconds", "Length of the last recovery", ["machine"])
_AGE = Gauge(
    "milena_machine_committed_age_seconds",
    "For how long the slowest partition's committed offset stands still under lag",
    ["machine"],
)
_LAG = Gauge("milena_machine_lag", "Records of the inbox not yet committed", ["machine"])
_STRANGERS = Counter(
    "milena_machine_strangers_total", "Changelog records that somebody else wrote", ["machine"]
)


class TransportMetrics:
    """What a machine's transport tells."""

    def __init__(self, machine: str) -> None:
        self.recovery_seconds = _RECOVERY.labels(machine)
        self.committed_age_seconds = _AGE.labels(machine)
        self.lag = _LAG.labels(machine)
        self.strangers = _STRANGERS.labels(machine)


class MachineMetrics:
    """The metrics of one machine."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self.events = _Labelled(_EVENTS, machine)
        self.dead_letters = _Labelled(_DEAD, machine)
        self.repeats = _REPEATS.labels(machine)
        self.put_again = _PUT_AGAIN.labels(machine)
        self.ahead = _AHEAD.labels(machine)
        self.forced_commits = _FORCED.labels(machine)
        self.fold_seconds = _FOLD.labels(machine)
        self.state_bytes = _STATE.labels(machine)
        self.ready = _READY.labels(machine)


class _Labelled:
    def __init__(self, counter: Counter, machine: str) -> None:
        self._counter = counter
        self._machine = machine

    def labels(self, value: str) -> Counter:
        return self._counter.labels(self._machine, value)
