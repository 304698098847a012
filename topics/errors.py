"""The exceptions of the log side, classified once.

    MilenaError
    ├── InvalidRecord      a record cannot be read: dead letter, within a limit
    ├── NotSupported       a record is well formed but its feature is not built: dead letter
    ├── SettingsError      a setting is unknown or bad: refuse to start
    ├── TopologyError      a topic is missing or has the wrong size: refuse to start
    ├── PastUnknown        a machine's inbox or state is not the one it folded: refuse to start
    └── LogUnavailable     the broker did not acknowledge in time: outcome unknown

Refusals of requests are values (`schemas.generated.types.Code`), never exceptions.
"""


class MilenaError(Exception):
    """Root of what Milena itself raises."""


class InvalidRecord(MilenaError):
    """A record that cannot be read. `reason` is a stable word, free of content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotSupported(MilenaError):
    """A well-formed record whose feature does not exist in this version."""


class SettingsError(MilenaError):
    """A setting is unknown or has a bad value; the message names the variable."""


class TopologyError(MilenaError):
    """A topic differs from its declaration; the message names found, expected and the next step."""


class PastUnknown(MilenaError):
    """An inbox re-created, a changelog lost, rules of a later version: folding on would drop or
    contradict what was decided. The message names the topic and the next step."""


class LogUnavailable(MilenaError):
    """The broker did not acknowledge within the deadline; whether it appended is unknown."""
