"""How the interpreter shares itself between threads and collects garbage in a process that serves.

Owns two knobs. Clients of the log live on threads of their own and hand their records to the loop: with
the default switch interval of 5 ms a record can wait that long for the interpreter, at every hop.
"""

import gc
import sys
from typing import Final

SWITCH_S: Final = 0.0005
GC_THRESHOLDS: Final = (50_000, 20, 100)


def serve() -> None:
    """Called once a process is about to serve: what it loaded so far is never collected again."""
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
