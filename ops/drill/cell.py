"""What a cell is: a fault of the matrix, what it needs, and how long all may take. Values only."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from pathlib import Path

import msgspec

from ops.drill.load import Shape
from ops.drill.nemesis import Nemesis
from ops.drill.result import CellResult

Act = Callable[[Nemesis], Awaitable[None]]
"""Does the harm, at moments of its choosing, and returns when the fault is over."""


Measure = Callable[[Path, int, threading.Event], CellResult]
"""Runs by itself over a folder, from a seed, and ends early where the event is set. Blocking."""


class Needs(Enum):
    """What the cell must be run on."""

    STACK = "any stack"
    PROXIES = "a stack behind proxies"
    OWN = "a stack of its own, which it may spoil"
    BROKER = "a broker alone"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: `act` or `measure`. An act fails it by raising, and by signs that were not seen."""

    name: str
    row: str
    what: str
    act: Act | None = None
    measure: Measure | None = None
    """In the place of `act`, where a cell brings its own broker."""
    needs: Needs = Needs.STACK
    shape: Shape = Shape()
    act_s_max: float = 150.0
    heal_s_max: float = 90.0
    """From the end of the fault until all that was accepted has ended and no machine lags."""
    settings: Mapping[str, str] = {}
    """Of a stack of its own."""
    judged: bool = True
    """Under load, with a history and all checks; else the act alone says what is wrong."""
    short: bool = False
    """One of the seeded selection that every test run draws from."""
