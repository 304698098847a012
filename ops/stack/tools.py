"""What a start needs beside the project itself: the fetched artifacts, a Java each, Redis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ops.stack import redis
from ops.stack.artifacts import ARTIFACTS, cached, content
from ops.stack.java import Java, find_java
from ops.stack.settings import StackSettings


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """Per part what it is run with; None for a part that is left out."""

    kafka: tuple[Path, Java] | None = None
    cassandra: tuple[Path, Java] | None = None
    redis: Path | None = None
    registry: tuple[Path, Java] | None = None


def find_tools(settings: StackSettings, wanted: set[str], env: Mapping[str, str]) -> Tools:
    """Looks for everything anew; what is not wanted or not there is None."""

    def served(name: str) -> tuple[Path, Java] | None:
        folder = cached(ARTIFACTS[name], settings.cache)
        java = find_java(name, env)
        if name not in wanted or folder is None or java is None:
            return None
        return content(folder), java

    server = redis.installed_version(env.get("PATH", "")) if "redis" in wanted else None
    return Tools(
        kafka=served("kafka"),
        cassandra=served("cassandra"),
        redis=server[0] if server else None,
        registry=served("registry"),
    )
