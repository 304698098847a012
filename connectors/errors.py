"""The exceptions of the outside systems, classified once.

    MilenaError
    ├── RedisAway          no answer within the deadline; whether it was applied is unknown
    ├── RedisFull          refused because memory is full; nothing was applied
    ├── RedisRefused       Redis calls the command wrong: a fault of ours, or foreign keys
    ├── StreamOrderBroken  a writer used a number that holds another entry: a fault of ours
    ├── StoreUnavailable   no answer within the deadline; whether it was applied is unknown
    ├── RowTooLarge        a row the store can never hold: no repeat helps
    └── Unfit              the system is there but must not be used: refuse to start

Normal conditions of a stream (fenced, stopped, lost) are values, never exceptions.
"""

from topics.errors import MilenaError


class RedisAway(MilenaError):
    """Redis did not answer within the deadline; every call of ours may be repeated."""


class RedisFull(MilenaError):
    """Redis has no memory left and refused; nothing changed."""


class RedisRefused(MilenaError):
    """Redis answered with an error that no condition of ours explains."""


class StreamOrderBroken(MilenaError):
    """Two different entries were given one number of one epoch."""


class StoreUnavailable(MilenaError):
    """The store did not answer within the deadline; every write of ours may be repeated."""


class RowTooLarge(MilenaError):
    """A row over the bound of one statement; it was not sent."""


class Unfit(MilenaError):
    """A system of the wrong version, policy or schema; the message says what to change."""
