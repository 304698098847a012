"""The first frames of a stream, made by the edge: they have no id and sequence 0. Pure."""

import msgspec

from edge.limits import iso
from edge.sse import Framer
from schemas.generated.types import Notice, Queued

_NOTICES = {"fallback_model": "Another model answers; the one you asked for has no room left."}


def created_frame(framer: Framer, status: str) -> bytes:
    return framer.own(0, "created", msgspec.json.encode({"status": status}))


def queued_frame(framer: Framer, position: int | None, deadline_ms: int) -> bytes:
    """`position` None where nobody knows it."""
    data = {"position": position, "deadline_at": iso(deadline_ms)}
    return framer.own(0, "queued", msgspec.json.encode(data))


def restart_frame(framer: Framer) -> bytes:
    """What was shown before does not count: the text begins anew."""
    return framer.own(0, "snapshot", b'{"text":""}')


def opening(framer: Framer, queued: Queued) -> bytes:
    """What a new stream begins with."""
    frames = created_frame(framer, "queued") + queued_frame(
        framer, queued.position, queued.queue_deadline_at_ms
    )
    return frames if queued.notice is None else frames + _notice_frame(framer, queued.notice)


def _notice_frame(framer: Framer, notice: Notice) -> bytes:
    data = {
        "code": notice.code,
        "message": _NOTICES.get(notice.code, notice.code),
        "reset_at": None if notice.reset_at_ms is None else iso(notice.reset_at_ms),
    }
    return framer.own(0, "notice", msgspec.json.encode(data))
