"""The native llama.cpp server in this process, spoken to in its own words.

Owns its parameters, its request and callback formats and its count of busy slots; it knows no
event loop. Prompts go in as token ids, so no template and no tokenizer of the native side is
used. It logs nothing, keeps nothing on disk, downloads nothing, and opens no port: it insists on
a listener, so it gets a unix socket in a private folder whose name is removed at once.
"""

import importlib
import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from inference.engines.base import EngineError, EngineErrorKind, Sampling

_BUSY = "llamacpp:requests_processing "


class LlamaCppSettings(msgspec.Struct, frozen=True):
    """`context_tokens` is what each of the `slots` has for itself (23 kB a token for SmolLM2).
    `batch_tokens` bounds a step of prefill, and with it a stop there: at most two steps."""

    context_tokens: int = 4096
    slots: int = 4
    batch_tokens: int = 128
    threads: int = 2


class NativeServer(Protocol):
    """What is used of `xllamacpp.Server`. Its calls block and release the interpreter lock."""

    def handle_completions(self, prompt: bytes, callback: Callable[[bytes], bool], /) -> None:
        """Compute; call back for every token and every batch of prefill; True there cancels."""

    def handle_metrics(self) -> str:
        """Prometheus text, answered by the native loop between its steps."""


class Choice(msgspec.Struct):
    """`finish_reason` is None, `stop` or `length`."""

    text: str
    finish_reason: str | None = None


class Timings(msgspec.Struct):
    """`predicted_n`: output tokens so far, the end mark included."""

    predicted_n: int = 0


class Progress(msgspec.Struct):
    """`cache`: input tokens that were taken from the slot's cache."""

    cache: int = 0


class Failure(msgspec.Struct):
    """A refused or failed request. The message may quote it: never log it."""

    type: str = ""
    message: str = ""


class Chunk(msgspec.Struct):
    """One callback: a piece of text, progress in prefill, or an error."""

    choices: tuple[Choice, ...] = ()
    timings: Timings | None = None
    prompt_progress: Progress | None = None
    error: Failure | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode


def encode_request(
    token_ids: tuple[int, ...], output_tokens_max: int, sampling: Sampling, slot: int, warm: bool
) -> bytes:
    """A completion on one slot. Temperature and top_p alone choose tokens, as in every engine;
    stop strings are not passed: we cut them ourselves."""
    seed = secrets.randbits(32) if sampling.seed is None else sampling.seed % 2**32
    return msgspec.json.encode(
        {
            "prompt": token_ids,
            "n_predict": output_tokens_max,
            "stream": True,
            "return_progress": True,
            "timings_per_token": True,
            "id_slot": slot,
            "cache_prompt": warm,
            "temperature": 0.0 if sampling.greedy else sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": 0,
            "min_p": 0.0,
            "samplers": ["temperature", "top_p"] if sampling.top_p < 1.0 else ["temperature"],
            "seed": seed,
        }
    )


def classify(failure: Failure) -> EngineError:
    """The native error as ours, told apart by its type."""
    if failure.type == "exceed_context_size_error":
        return EngineError(EngineErrorKind.TOO_LONG, failure.type)
    if "memory" in failure.message.lower() or "allocate" in failure.message.lower():
        return EngineError(EngineErrorKind.OUT_OF_MEMORY, failure.type)
    return EngineError(EngineErrorKind.BACKEND_ERROR, failure.type or "unknown")


def busy_slots(server: NativeServer) -> int:
    """Slots that compute or are about to. Blocks for a moment."""
    for line in server.handle_metrics().splitlines():
        if line.startswith(_BUSY):
            return int(float(line.removeprefix(_BUSY)))
    raise EngineError(EngineErrorKind.ENGINE_DEAD, "the native server tells no load")


def load_library() -> Any:
    """The module `xllamacpp`, imported nowhere else. Raises ImportError where it is missing.

    Its threads wait for each other after every matrix. They are told to sleep then, which is only
    read when the library is loaded: spinning ones are a fifth faster on an idle machine, and many
    times slower on one whose cores a broker and a store want as well.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    return importlib.import_module("xllamacpp")


def start_server(weights: Path, settings: LlamaCppSettings) -> NativeServer:
    """Load the weights and compute one token, so that the next is fast. Blocks, for about a
    second with the interpreter lock held. Raises EngineError (`engine_dead`)."""
    xllamacpp = load_library()
    with tempfile.TemporaryDirectory(prefix="milena-llama-") as folder:
        # Leaving the folder removes the socket's name: nobody can connect any more.
        params = _fill(xllamacpp.CommonParams(), weights, settings, f"{folder}/llama.sock")
        try:
            server: NativeServer = xllamacpp.Server(params)
        except (RuntimeError, ValueError) as error:
            raise EngineError(EngineErrorKind.ENGINE_DEAD, "the model did not load") from error
    warm_up = encode_request((1, 2, 3), 1, Sampling(temperature=0.0), 0, warm=False)
    server.handle_completions(warm_up, lambda _: False)
    return server


def _fill(params: Any, weights: Path, settings: LlamaCppSettings, socket: str) -> Any:
    params.model.path = str(weights)
    params.n_parallel = settings.slots
    params.n_ctx = settings.slots * settings.context_tokens
    params.kv_unified = False  # every slot has its own full context
    params.n_batch = params.n_ubatch = settings.batch_tokens
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    params.fit_params = False  # measuring memory first costs seconds
    params.ctx_shift = False
    params.cache_ram_mib = 0  # no prompt outlives its slot
    params.cache_idle_slots = False
    params.endpoint_metrics = True
    params.endpoint_slots = False
    params.ui = False
    params.offline = True
    params.verbosity = -1  # its log lines may quote prompts
    params.sse_ping_interval = -1
    params.n_threads_http = 1
    params.hostnames = [socket]
    params.api_keys = [secrets.token_hex(16)]
    return params
