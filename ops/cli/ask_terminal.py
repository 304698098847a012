"""The terminal of one answer: growing text, a spinner before it, and Ctrl-C at safe moments only.

Owns what was written so far. Writes the answer to stdout and nothing else there.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ops.cli.ask_answer import Answer, unseen
from ops.cli.console import note, working


class CtrlC:
    """Ctrl-C as KeyboardInterrupt, but only while the program waits: never halfway through a write.

    One that comes in between is raised at the next wait.
    """

    def __init__(self) -> None:
        self._waits = False
        self._heard = False

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._hear)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self._waits = True
        try:
            if self._heard:
                self._raise()
            yield
        finally:
            self._waits = False

    def _hear(self, number: int, frame: object) -> None:
        self._heard = True
        if self._waits:
            self._raise()

    def _raise(self) -> None:
        self._heard = False
        raise KeyboardInterrupt


class Writer:
    """Keeps the answer and writes its growing text; the spinner stops at the first of it."""

    def __init__(self, answer: Answer, *, live: bool) -> None:
        self.answer = answer
        self.live = live
        self.first_text_s: float | None = None
        self._shown = ""
        self._started_s = time.monotonic()
        self._spinner = ExitStack()
        self._say = self._spinner.enter_context(working("waiting for the first word"))

    @property
    def seconds(self) -> float:
        """Since the question was asked."""
        return time.monotonic() - self._started_s

    def update(self, answer: Answer) -> None:
        self.answer = answer
        if answer.text and self.first_text_s is None:
            self.first_text_s = self.seconds
            self._spinner.close()
        elif not answer.text and answer.position is not None:
            self._say(f"queued, {answer.position} ahead")
        if self.live:
            self._write(answer.text)

    def end(self) -> None:
        """Stops the spinner and, in a terminal, ends the line."""
        self._spinner.close()
        if self.live and self._shown and not self._shown.endswith("\n"):
            print(flush=True)

    def _write(self, text: str) -> None:
        fresh = unseen(self._shown, text)
        if fresh is None:
            note("\n(what was shown is replaced)")
            fresh = text
        sys.stdout.write(fresh)
        sys.stdout.flush()
        self._shown = text
