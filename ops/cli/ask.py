"""`milena ask "…"`: one question, answered in the terminal as it is written.

The answer goes to stdout: as it comes where that is a terminal, else whole at the end, so that a
pipe never gets text that was taken back. Ctrl-C stops the generation on the server first.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from ops.cli.console import AsJson, CommandError, ExitCode, note, result, unreachable

if TYPE_CHECKING:
    from ops.cli.ask_stream import AnswerStream
    from ops.cli.ask_terminal import Writer

STOPPED_S_MAX = 15.0

Prompt = Annotated[str, typer.Argument(help="The question; - reads it from stdin.")]
Model = Annotated[str, typer.Option(help="Alias of a model.")]
Key = Annotated[
    str, typer.Option(help="API key; else MILENA_CLI_KEY, else the local stack's.", metavar="mk_…")
]
BaseUrl = Annotated[
    str, typer.Option(help="The edge; else MILENA_CLI_BASE_URL, else the local one.")
]
TierName = Annotated[str, typer.Option(help="Whose key of the local stack: free, paid, operator.")]
OutputTokens = Annotated[int | None, typer.Option(help="Most tokens to write.", min=1)]


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command()(ask)


def ask(
    prompt: Prompt,
    model: Model = "flagship",
    key: Key = "",
    base_url: BaseUrl = "",
    tier: TierName = "paid",
    max_output_tokens: OutputTokens = None,
    as_json: AsJson = False,
) -> None:
    """Ask a model and stream its answer. Ctrl-C stops it on the server and shows what was written.

    Exit status 0 when completed, 1 when it failed, 4 when refused, 130 when stopped by Ctrl-C.
    """
    from ops.cli import environment
    from ops.cli.ask_answer import Answer
    from ops.cli.ask_stream import AnswerStream, Away, Lost, Question, Refused
    from ops.cli.ask_terminal import CtrlC, Writer

    url = base_url.rstrip("/") or environment.edge_url(os.environ)
    question = Question(
        prompt=sys.stdin.read() if prompt == "-" else prompt,
        model=model,
        idempotency_key=f"cli-{uuid.uuid4()}",
        max_output_tokens=max_output_tokens,
    )
    writer = Writer(Answer(), live=sys.stdout.isatty() and not as_json)
    ctrl_c, chosen = CtrlC(), key or _key(tier)
    try:
        with ctrl_c, AnswerStream(url, chosen, question, waiting=ctrl_c.waiting) as stream:
            interrupted = _read(stream, writer)
    except Refused as error:
        code = ExitCode.REFUSED
        raise CommandError(f"refused, {error}", _next_after(error.code), code) from error
    except Away as error:
        raise unreachable("the edge", url) from error
    except Lost as error:
        again = f"milena replay {error}" if str(error) else "milena status"
        raise CommandError("the stream broke", again, ExitCode.UNREACHABLE) from error
    finally:
        writer.end()
    _report(writer, as_json=as_json)
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)


def _read(stream: AnswerStream, writer: Writer) -> bool:
    """Reads to the end. True where Ctrl-C ended it."""
    try:
        _follow(stream, writer)
    except KeyboardInterrupt:
        if not stream.generation_id:
            raise  # nothing runs yet under an id; the edge gives the place back by itself
        stream.cancel()
        _follow(stream, writer, until_s=time.monotonic() + STOPPED_S_MAX)
        return True
    return False


def _follow(stream: AnswerStream, writer: Writer, until_s: float | None = None) -> None:
    from ops.cli.ask_answer import Gap, apply

    while not stream.ended:
        with closing(stream.events()) as events:
            for event, data in events:
                try:
                    writer.update(apply(writer.answer, event, data))
                except Gap:
                    stream.restart()
                    break
                if until_s is not None and time.monotonic() > until_s:
                    return


def _key(tier: str) -> str:
    from ops.cli import environment
    from topics.runtime.settings import read

    given = read(environment.CliSettings, "CLI", os.environ).key
    if given:
        return given
    path = environment.keys_file(os.environ)
    try:
        keys = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        return keys[tier]
    except (OSError, msgspec.DecodeError, KeyError) as error:
        raise CommandError(
            f"no key for tier {tier} in {path}; give --key or MILENA_CLI_KEY",
            "milena keys create",
            ExitCode.BAD_SETTING,
        ) from error


def _next_after(code: str) -> str:
    return "milena keys list" if code == "unauthorized" else "milena status"


def _report(writer: Writer, *, as_json: bool) -> None:
    answer = writer.answer
    if as_json:
        document = msgspec.structs.asdict(answer)
        result({**document, "first_text_s": writer.first_text_s}, [], as_json=True)
    elif not writer.live:
        result(None, [answer.text] if answer.text else [], as_json=False)
    for code in answer.notices:
        note(f"notice: {code}")
    usage = answer.usage or {}
    parts = [answer.status, f"{writer.seconds:.1f} s"]
    if writer.first_text_s is not None:
        parts.append(f"first text after {writer.first_text_s:.2f} s")
    if usage:
        parts.append(f"{usage.get('input_tokens')} tokens in, {usage.get('output_tokens')} out")
    note(", ".join([*parts, answer.generation_id]))
    if answer.status == "failed":
        raise CommandError(
            f"the answer ended with {answer.error_code}", f"milena replay {answer.generation_id}"
        )
