"""The scripted engine's family: a token is a piece of text between white space.

Owns a count that a test can make in its head. Its ids say nothing and no model reads them.
"""

import zlib
from collections.abc import Sequence

from connectors.tokens.message import Message


class WordTokenizer:
    """Counts the white-space separated pieces of all contents; a prompt has at least one token.

    Roles and the system prompt cost nothing, except that the least prompt of one token stands
    for them: `count_prompt(messages)` is `max(1, pieces)`.
    """

    family = "scripted"

    def count_text(self, text: str) -> int:
        """Pieces of the text."""
        return len(text.split())

    def count_message(self, message: Message) -> int:
        """Pieces of the content."""
        return self.count_text(message.content)

    def count_prompt(self, messages: Sequence[Message]) -> int:
        """Pieces of all contents, at least 1."""
        return max(1, sum(self.count_message(message) for message in messages))

    def encode_prompt(self, messages: Sequence[Message]) -> list[int]:
        """One checksum per piece; a single 0 for a prompt without any."""
        pieces = [piece for message in messages for piece in message.content.split()]
        return [zlib.crc32(piece.encode("utf-8", "surrogatepass")) for piece in pieces] or [0]
