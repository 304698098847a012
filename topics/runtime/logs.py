"""Logs: JSON lines on stdout, opaque ids only. Owns the configuration; never sees private text."""

import logging
import sys

import structlog


def configure(process: str) -> None:
    """Makes every log line of this process JSON with time, level and process name."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stdout),
    )
    structlog.contextvars.bind_contextvars(process=process)
    # Libraries log through the standard library: same stream, warnings and worse.
    logging.basicConfig(
        level=logging.WARNING,
        stream=sys.stdout,
        format='{"level":"%(levelname)s","logger":"%(name)s","event":"%(message)s"}',
        force=True,
    )
