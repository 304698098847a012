"""Plain commands on a Redis in memory: those that we, and tests of ours, send. Owns their words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from redis.exceptions import ResponseError

from connectors.redis.layout import parse_id
from connectors.redis.memory_keys import TOO_SMALL, Answer, Keyspace

SYNTAX: Final = "ERR syntax error"
Given = Sequence[bytes]
Command = Callable[[Keyspace, str, Given], Answer]
"""(data, key, what follows the key)"""


def run(keys: Keyspace, name: str, given: Given) -> Answer:
    """One command by its upper-case name.

    Raises:
        ResponseError: as Redis answers.
    """
    if name == "DBSIZE":
        return len(keys.names())
    if name == "FLUSHALL":
        keys.flush()
        return b"OK"
    command = _COMMANDS.get(name)
    if command is None or not given:
        raise ResponseError(SYNTAX)
    return command(keys, given[0].decode(), given[1:])


def _set(keys: Keyspace, key: str, given: Given) -> Answer:
    value, *life = given
    if life and (len(life) != 2 or life[0] != b"EX"):
        raise ResponseError(SYNTAX)
    keys.set(key, value, 1_000 * int(life[1]) if life else None)
    return b"OK"


def _hgetall(keys: Keyspace, key: str, given: Given) -> Answer:
    fields = (keys.hash(key) or {}).items()
    return [part for name, value in fields for part in (name.encode(), value)]


def _xadd(keys: Keyspace, key: str, given: Given) -> Answer:
    entry_id, *pairs = given
    if not keys.add(key, parse_id(entry_id), pairs):
        raise ResponseError(TOO_SMALL)
    return entry_id


def _xlen(keys: Keyspace, key: str, given: Given) -> Answer:
    stream = keys.stream(key)
    return 0 if stream is None else len(stream.entries)


def _xrange(keys: Keyspace, key: str, given: Given) -> Answer:
    start, end, word, count = given
    if (end, word) != (b"+", b"COUNT"):
        raise ResponseError(SYNTAX)
    after = None if start == b"-" else parse_id(start.removeprefix(b"("))
    return keys.range(key, after, int(count))


def _xtrim(keys: Keyspace, key: str, given: Given) -> Answer:
    word, length = given
    if word != b"MAXLEN":
        raise ResponseError(SYNTAX)
    return keys.trim(key, int(length))


_COMMANDS: Final[Mapping[str, Command]] = {
    "GET": lambda keys, key, given: keys.get(key),
    "SET": _set,
    "HGETALL": _hgetall,
    "XADD": _xadd,
    "XLEN": _xlen,
    "XRANGE": _xrange,
    "XTRIM": _xtrim,
    "PEXPIRE": lambda keys, key, given: int(keys.live_for(key, int(given[0]))),
    "PTTL": lambda keys, key, given: keys.ttl_ms(key),
    "EXISTS": lambda keys, key, given: int(keys.exists(key)),
    "DEL": lambda keys, key, given: int(keys.exists(key) and keys.delete(key)),
}
