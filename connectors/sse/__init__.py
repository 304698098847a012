"""Server-sent events as a client reads them."""

from connectors.sse.parser import Event, Parser, TooLarge

__all__ = ["Event", "Parser", "TooLarge"]
