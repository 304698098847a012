"""The Lua scripts told again in Python, for a Redis in memory. Each does what its namesake does.

Owns nothing but the twins; `tests/contract/redis` holds each to its script.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from redis.exceptions import ResponseError

from connectors.redis.layout import format_id, parse_id
from connectors.redis.memory_keys import TOO_SMALL, Answer, Hash, Keyspace

Twin = Callable[[Keyspace, Sequence[str], Sequence[bytes]], Answer]


def append(keys: Keyspace, names: Sequence[str], given: Sequence[bytes]) -> Answer:
    stream, control = names
    channel, epoch, sequence, event, data = given
    stands = dict(keys.hash(control) or {})
    if "epoch" not in stands:
        return [b"LOST"]
    if "ended" in stands or int(epoch) < int(stands["epoch"]):
        return [b"FENCED"]
    entry_id = (int(epoch), int(sequence))
    there = keys.stream(stream)
    goes_on = sequence != b"1" and event != b"snapshot"
    missing = there is None and goes_on
    added = keys.add(stream, entry_id, (b"e", event, b"d", data))
    if not added and (there is None or there.entries.get(entry_id) != (b"e", event, b"d", data)):
        newer = there is not None and there.top is not None and there.top[0] > entry_id[0]
        return [b"FENCED" if newer else b"ORDER"]
    if not added and there is not None:
        missing = goes_on and next(iter(there.entries)) == entry_id
    _raise_epoch(keys, control, stands, epoch)
    keys.live_for(stream, int(stands["ttl_ms"]))
    keys.live_for(control, int(stands["ttl_ms"]))
    if added:
        keys.publish(channel.decode(), _message(entry_id, event, data))
    return _answer(keys, stands, missing)


def check(keys: Keyspace, names: Sequence[str], given: Sequence[bytes]) -> Answer:
    stream, control = names
    epoch, sequence = given
    stands = dict(keys.hash(control) or {})
    if "epoch" not in stands:
        return [b"LOST"]
    if "ended" in stands or int(epoch) < int(stands["epoch"]):
        return [b"FENCED"]
    _raise_epoch(keys, control, stands, epoch)
    keys.live_for(control, int(stands["ttl_ms"]))
    there = keys.live_for(stream, int(stands["ttl_ms"]))
    return _answer(keys, stands, missing=not there and sequence != b"0")


def open_(keys: Keyspace, names: Sequence[str], given: Sequence[bytes]) -> Answer:
    (control,) = names
    number, epoch, ttl_ms, stop, released_to, *pairs = given
    stands = dict(keys.hash(control) or {})
    if "ended" in stands:
        return b"ENDED"
    if "number" in stands and int(number) <= int(stands["number"]):
        return b"OLD"
    highest = max(int(epoch), int(stands.get("epoch", b"0")))
    keys.put_fields(
        control, b"number", number, b"epoch", b"%d" % highest, b"ttl_ms", ttl_ms, *pairs
    )
    if stop and "stop" not in stands:
        keys.put_fields(control, b"stop", stop)
    if released_to:
        keys.put_fields(control, b"released_to", released_to)
    else:
        (keys.hash(control) or {}).pop("released_to", None)
    keys.live_for(control, int(ttl_ms))
    return b"APPLIED"


def stop(keys: Keyspace, names: Sequence[str], given: Sequence[bytes]) -> Answer:
    number, reason = given
    refused = _refused(keys, names[0], number)
    if refused is not None:
        return refused
    keys.put_fields(names[0], b"number", number)
    if "stop" not in (keys.hash(names[0]) or {}):
        keys.put_fields(names[0], b"stop", reason)
    return b"APPLIED"


def release(keys: Keyspace, names: Sequence[str], given: Sequence[bytes]) -> Answer:
    number, released_to = given
    refused = _refused(keys, names[0], number)
    if refused is not None:
        return refused
    keys.put_fields(names[0], b"number", number, b"released_to", released_to)
    return b"APPLIED"


def fence(keys: Keyspace, names: Sequence[str], given: Sequence[bytes]) -> Answer:
    stream, control = names
    epoch, count = given
    stands = keys.hash(control) or {}
    if "epoch" in stands and "ended" not in stands and int(epoch) > int(stands["epoch"]):
        keys.put_fields(control, b"epoch", epoch)
    there = keys.stream(stream)
    if there is None:
        return [b"", []]
    return [format_id(*there.last).encode(), keys.range(stream, None, int(count))]


def end(keys: Keyspace, names: Sequence[str], given: Sequence[bytes]) -> Answer:
    stream, control = names
    channel, epoch, number, seen, snapshot_at, snapshot, terminal_at, event, data, ttl_ms = given[
        :10
    ]
    marked = (keys.hash(control) or {}).get("ended")
    if marked is not None:
        return [b"ENDED", marked]
    there = keys.stream(stream)
    last = b"" if there is None else format_id(*there.last).encode()
    code = b"APPLIED"

    def write(sequence: bytes, event: bytes, data: bytes) -> bytes:
        entry_id = parse_id(epoch + b"-" + sequence)
        if not keys.add(stream, entry_id, (b"e", event, b"d", data)):
            raise ResponseError(TOO_SMALL)
        keys.publish(channel.decode(), _message(entry_id, event, data))
        return format_id(*entry_id).encode()

    if last and last.partition(b"-")[0] == epoch:
        code, ended = b"ENDED", last
    elif last != seen:
        return [b"MOVED", last]
    else:
        if snapshot_at:
            write(snapshot_at, b"snapshot", snapshot)
        ended = write(terminal_at, event, data)
    keys.put_fields(control, b"number", number, b"epoch", epoch, b"ended", ended, *given[10:])
    keys.live_for(stream, int(ttl_ms))
    keys.live_for(control, int(ttl_ms))
    return [code, ended]


def touch(keys: Keyspace, names: Sequence[str], given: Sequence[bytes]) -> Answer:
    if not keys.exists(names[0]):
        return 0
    keys.put_fields(names[0], b"reader_seen_at_ms", b"%d" % keys.now_ms())
    return 1


TWINS: Final[Mapping[str, Twin]] = {
    "append": append,
    "check": check,
    "open": open_,
    "stop": stop,
    "release": release,
    "fence": fence,
    "end": end,
    "touch": touch,
}
"""By the name of the script."""


def _raise_epoch(keys: Keyspace, control: str, stands: Hash, epoch: bytes) -> None:
    if int(epoch) > int(stands["epoch"]):
        keys.put_fields(control, b"epoch", epoch)
    if stands.get("status") == b"queued":
        keys.put_fields(control, b"status", b"running")


def _answer(keys: Keyspace, stands: Hash, missing: bool) -> Answer:
    stop = stands.get("stop")
    seen = stands.get("reader_seen_at_ms")
    age_ms = -1 if seen is None else keys.now_ms() - int(seen)
    return [b"OK" if stop is None else b"STOP", int(missing), stop or b"", age_ms]


def _refused(keys: Keyspace, control: str, number: bytes) -> bytes | None:
    """Why a control write changes nothing; None where it does."""
    stands = keys.hash(control) or {}
    if "number" not in stands:
        return b"MISSING"
    if "ended" in stands:
        return b"ENDED"
    return b"OLD" if int(number) <= int(stands["number"]) else None


def _message(entry_id: tuple[int, int], event: bytes, data: bytes) -> bytes:
    return b"%s %s %s" % (format_id(*entry_id).encode(), event, data)
