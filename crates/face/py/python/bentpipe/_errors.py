"""Exceptions."""

from typing import NamedTuple


class Problem(NamedTuple):
    """Error in a scenario, with its place.

    File, line and column are ``None`` if the value was set from Python.
    """

    file: str | None
    line: int | None
    column: int | None
    key: str
    message: str


class BentpipeError(Exception):
    """Base of the package's own exceptions."""


class ScenarioError(BentpipeError, ValueError):
    """Error raised when a scenario is invalid.

    Its text is that of the command line.

    >>> import bentpipe
    >>> try:
    ...     bentpipe.parse(bentpipe.EXAMPLE.replace("10 ms", "10 m")).check()
    ... except bentpipe.ScenarioError as error:
    ...     print(error.line, error.key)
    13 link.home.delay
    """

    def __init__(self, text: str, problems: list[tuple[str | None, int | None, int | None, str, str]]) -> None:
        super().__init__(text, problems)
        self.problems = [Problem(*problem) for problem in problems]

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def file(self) -> str | None:
        """File of the first problem."""
        return self.problems[0].file

    @property
    def line(self) -> int | None:
        """Line of the first problem, from 1."""
        return self.problems[0].line

    @property
    def column(self) -> int | None:
        """Column of the first problem, from 1."""
        return self.problems[0].column

    @property
    def key(self) -> str:
        """Dotted key of the first problem; empty if the file as a whole is meant."""
        return self.problems[0].key


class RunError(BentpipeError, RuntimeError):
    """Error raised when a run cannot be made or recorded."""


class RohcError(BentpipeError, ValueError):
    """Error raised when a packet cannot be compressed or restored."""


class InternalError(BentpipeError, RuntimeError):
    """Error raised when bentpipe has a bug: the extension panicked."""
