"""An event loop without a selector: virtual time, processes, and a seeded choice of who runs next.

Owns time and order of the simulated world. A *process* is a context variable that tasks inherit; what
one process does stays in the order asyncio promises, and processes are interleaved at random. Time
stands still while anything is ready and then jumps to the next timer. Knows nothing of the domain.
"""

import asyncio
import contextlib
import heapq
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

_TASKS_PRUNED_AT = 64


class Exited(BaseException):
    """The running process ended itself; nothing of it goes on. Passes every `except Exception`."""


class Process:
    """One simulated process: what it has to do, and whether it may do it."""

    __slots__ = ("alive", "name", "on_exit", "queued", "ready", "stopped", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.stopped = False
        self.queued = False
        """True while the loop lists it among those that can run."""
        self.ready: deque[Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.on_exit: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<{self.name}>"


PROCESS: ContextVar[Process] = ContextVar("process")


class Stuck(AssertionError):
    """Nothing can ever happen again, but somebody waits."""


class SimulationLoop(asyncio.BaseEventLoop):
    """`fail` ends the run; so does an error in any callback of a living process."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.world = Process("world")
        self.processes: list[Process] = [self.world]
        self.steps = 0
        self.schedule = 0
        """A running digest of every choice made."""
        self.wake_at = -1
        """The step before which `woken` is called, once."""
        self.woken: Callable[[], None] = lambda: None
        self.failure: BaseException | None = None
        self._random = rng.random
        self._now_s = 0.0
        self._serial = 0
        self._runnable: list[Process] = []
        self._timers: list[tuple[float, int, TimerHandle, Process]] = []
        self._over = False
        self.set_exception_handler(self._failed)

    # --- what asyncio asks of a loop

    def time(self) -> float:
        return self._now_s

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, self, context)
        process = PROCESS.get(self.world) if context is None else context.get(PROCESS, self.world)
        self._put(process, handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        handle = TimerHandle(when, callback, args, self, context)
        process = PROCESS.get(self.world) if context is None else context.get(PROCESS, self.world)
        if process.alive and not self._over:
            self._serial += 1
            heapq.heappush(self._timers, (when, self._serial, handle, process))
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        """A cancelled timer is dropped when its time comes."""

    def create_task(
        self,
        coro: Coroutine[Any, Any, T],  # type: ignore[override]
        *,
        name: str | None = None,  # type: ignore[override]
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name or "t", context=context)
        process = PROCESS.get(self.world) if context is None else context.get(PROCESS, self.world)
        tasks = process.tasks
        if len(tasks) >= _TASKS_PRUNED_AT and process.alive:
            tasks[:] = [one for one in tasks if not one.done()]
        # Held here: a task of a killed process must not be finalised while the world goes on.
        tasks.append(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - a thread hands over whatever was raised
            future.set_exception(error)
        return future

    def _run_once(self) -> None:
        if self.steps == self.wake_at:
            self.wake_at = -1
            self.woken()
        runnable = self._runnable
        if not runnable:
            self._pass_time()
            return
        self.steps += 1
        at = int(self._random() * len(runnable)) if len(runnable) > 1 else 0
        process = runnable[at]
        self.schedule = (self.schedule * 31 + at + 1) & 0xFFFFFFFF
        handle = process.ready.popleft()
        if not process.ready:
            process.queued = False
            last = runnable.pop()
            if last is not process:
                runnable[at] = last
        if not handle._cancelled:
            handle._run()
            if self.failure is not None:
                self.stop()

    def _pass_time(self) -> None:
        timers = self._timers
        while timers:
            when, _, handle, process = heapq.heappop(timers)
            if handle._cancelled or not process.alive:
                continue
            self._now_s = max(self._now_s, when)
            self._put(process, handle)
            return
        self.failure = Stuck("nothing will ever happen again")
        self.stop()

    def _put(self, process: Process, handle: Handle) -> None:
        if not process.alive or self._over:
            return
        process.ready.append(handle)
        if not process.queued and not process.stopped:
            process.queued = True
            self._runnable.append(process)

    # --- processes

    def start(self, process: Process, main: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Runs a coroutine as a process of its own."""
        self.processes.append(process)
        return self.create_task(main, context=self.context_of(process))

    def context_of(self, process: Process) -> Context:
        """A fresh context that belongs to the process."""
        context = copy_context()
        context.run(PROCESS.set, process)
        return context

    def kill(self, process: Process) -> None:
        """kill -9: what it was about to do never happens, and none of its `finally` runs."""
        if not process.alive:
            return
        process.alive = False
        process.ready.clear()
        self._unlist(process)
        for told in process.on_exit:
            self.world_soon(told)

    def stop_process(self, process: Process) -> None:
        """SIGSTOP."""
        process.stopped = True
        self._unlist(process)

    def continue_process(self, process: Process) -> None:
        """SIGCONT: what became due meanwhile is done now, in order."""
        process.stopped = False
        if process.alive and process.ready and not process.queued:
            process.queued = True
            self._runnable.append(process)

    def world_soon(self, callback: Callable[..., Any], *args: Any) -> None:
        """Runs something that belongs to no process."""
        self._put(self.world, Handle(callback, args, self, self.context_of(self.world)))

    def fail(self, error: BaseException) -> None:
        """Ends the run with its first failure."""
        if self.failure is None:
            self.failure = error

    def _unlist(self, process: Process) -> None:
        if process.queued:
            process.queued = False
            self._runnable.remove(process)

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        handle = context.get("handle")
        if handle is None or self._over or isinstance(error, Exited):
            return  # a task's own error is its owner's to look at
        if handle._context.get(PROCESS, self.world).alive:
            self.fail(error or AssertionError(context.get("message")))

    # --- the end

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Runs until `main` is done, or raises the first failure."""
        task = self.create_task(main, context=self.context_of(self.world))
        task.add_done_callback(lambda _: self.stop())
        try:
            self.run_forever()
            if self.failure is not None:
                raise self.failure
            if task.done():
                task.result()
        finally:
            self._bury()

    def _bury(self) -> None:
        """The world is over: ends every coroutine in silence. What their `finally` does is void."""
        self._over = True
        self._runnable.clear()
        self._timers.clear()
        for process in self.processes:
            process.alive = False
            process.ready.clear()
            for task in process.tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                if not task.done():
                    _close(task.get_coro())  # type: ignore[arg-type]
                elif not task.cancelled():
                    task.exception()
            process.tasks.clear()
        self.close()


def _close(coro: Coroutine[Any, Any, Any]) -> None:
    for _ in range(50):
        try:
            coro.close()
            return
        except BaseException:  # noqa: BLE001 - a `finally` that waits or fails after the end
            with contextlib.suppress(BaseException):
                coro.throw(Exited)
