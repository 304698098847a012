"""Makes the outside of one worker from its settings: engine, Redis, store, log.

Owns which class stands behind which seam. It runs nothing.
"""

from connectors.redis.calls import Calls
from connectors.redis.reader import StreamReader
from connectors.redis.writer import StreamWriter
from connectors.store import Store
from connectors.tokens import tokenizer_for
from inference.engines.base import Engine
from inference.engines.scripted import ScriptedEngine
from inference.log import Log
from inference.payloads import Payloads
from inference.worker import LANES, Outside
from topics.models import Model
from topics.registry import CONTROL_WORKERS, LANE_TOPICS, RUNS_INBOX, WORKERS_INBOX
from topics.runtime.clock import elapsed_s
from topics.topic import Topic


def engine_of(model: Model) -> Engine:
    """The engine a model names, not started.

    Raises:
        ImportError: its packages are not installed.
        KeyError: no engine has this name.
    """
    if model.engine == "scripted":
        return ScriptedEngine(slots=model.slots, context_tokens=model.context_tokens_max)
    if model.engine == "llama_cpp":
        # Not at the top: a worker of another engine needs no native library.
        from inference.engines.llama_cpp import LlamaCppEngine
        from inference.engines.llama_native import LlamaCppSettings

        return LlamaCppEngine(
            LlamaCppSettings(context_tokens=model.context_tokens_max, slots=model.slots)
        )
    raise KeyError(f"no engine {model.engine!r}")


def topics_of(model: Model) -> list[Topic]:
    """What must exist before the worker starts."""
    lanes = [LANE_TOPICS[(model.pool, lane)] for lane in LANES]
    return [RUNS_INBOX, WORKERS_INBOX, CONTROL_WORKERS, *lanes]


def outside_of(model: Model, log: Log, calls: Calls, store: Store) -> Outside:
    """Everything the worker of a model talks to. Loads the tokenizer: a tenth of a second."""
    tokenizer_for(model.tokenizer_family)
    reader = StreamReader(calls)

    async def kept(generation_id: str) -> bytes | None:
        row = await store.payload(generation_id)
        return None if row is None else row.body

    return Outside(
        log=log,
        engine=engine_of(model),
        writer=StreamWriter(calls),
        payloads=Payloads(reader.get_payload, kept, elapsed_s),
        results=store,
        clock=elapsed_s,
    )
