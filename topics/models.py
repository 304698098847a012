"""Which models there are: alias, version, pool, engine, bounds. Data only; loads nothing."""

from typing import Final

import msgspec


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One served model. A change of weights or settings is a new `version`, never an edit."""

    alias: str
    version: str
    pool: str
    engine: str
    tokenizer_family: str
    context_tokens_max: int
    output_tokens_max: int
    slots: int
    """Sequences one worker computes at once."""
    fallback_alias: str | None = None


FLAGSHIP: Final = Model(
    alias="flagship",
    version="smollm2-135m-instruct-q4_1@1",
    pool="smollm2",
    engine="llama_cpp",
    tokenizer_family="smollm2",
    context_tokens_max=4_096,
    output_tokens_max=2_048,
    slots=4,
    fallback_alias="small",
)
SMALL: Final = Model(
    alias="small",
    version="smollm2-135m-instruct-q4_1-2k@1",
    pool="smollm2-small",
    engine="llama_cpp",
    tokenizer_family="smollm2",
    context_tokens_max=2_048,
    output_tokens_max=1_024,
    slots=4,
)
SCRIPTED: Final = Model(
    alias="scripted",
    version="scripted@1",
    pool="scripted",
    engine="scripted",
    tokenizer_family="scripted",
    context_tokens_max=65_536,
    output_tokens_max=1_000_000,
    slots=256,
)
MODELS: Final = (FLAGSHIP, SMALL, SCRIPTED)
POOLS: Final = tuple(model.pool for model in MODELS)


def model_of_alias(alias: str) -> Model | None:
    return next((model for model in MODELS if model.alias == alias), None)


def model_of_pool(pool: str) -> Model:
    """The pool's model; an unknown pool is a programming error and raises StopIteration's kin."""
    found = next((model for model in MODELS if model.pool == pool), None)
    if found is None:
        raise KeyError(f"no model has pool {pool!r}; there are {', '.join(POOLS)}")
    return found
