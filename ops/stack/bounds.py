"""The bounds that callers meet, as the settings here have them: what `milena doctor` shows.

Reads the sections that own the values; holds no value itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from connectors.store.settings import StoreSettings
from edge.settings import EdgeSettings
from ops.stack.preflight import Finding
from processors.admission.state import RETAINED_MS
from topics.runtime.settings import read


def bounds(env: Mapping[str, str]) -> list[Finding]:
    """One line a bound, nothing of which can fail.

    Raises:
        SettingsError: a bad value, or an unknown name in one of the sections.
    """
    edge, store = read(EdgeSettings, "EDGE", env), read(StoreSettings, "STORE", env)
    shown = {
        "body": f"{edge.body_bytes_max:,} bytes",
        "stream buffer": f"{edge.stream_buffer_bytes_max:,} bytes a client",
        "results kept": f"{store.results_ttl_s:,} s",
        "request identities kept": f"{RETAINED_MS // 3_600_000} h after the end",
        "run": f"{edge.run_ms_max // 1_000:,} s",
        "disconnect grace": f"{edge.disconnect_grace_ms // 1_000:,} s",
        "queue wait": f"{edge.queue_wait_ms_max // 1_000:,} s",
    }
    return [
        Finding(name=f"bound: {name}", ok=True, detail=detail, needed=False)
        for name, detail in shown.items()
    ]
