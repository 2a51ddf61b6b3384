"""Folders of results."""

from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from bentpipe import _native
from bentpipe._table import Table


class Estimate(NamedTuple):
    """Mean over the seeds, with the half-width of its 95 % confidence interval (``None`` for one seed)."""

    mean: float
    ci95: float | None
    n: int
    unit: str


class Run(NamedTuple):
    """Run of a point of the sweep with one seed."""

    point: int
    settings: dict[str, str]
    seed: int
    fingerprint: str
    path: Path
    events: int
    wall_s: float


class Results:
    """Results of a plan: all points of the sweep with all seeds, in a folder.

    >>> import bentpipe
    >>> results = bentpipe.parse(bentpipe.EXAMPLE).run(seeds=2, out=folder)
    >>> results
    <bentpipe.Results 'A file over a satellite': 1 point, 2 runs>
    >>> results.value("flow.file.goodput").n
    2
    >>> bentpipe.open(results.path).fingerprints == results.fingerprints
    True
    """

    def __init__(self, native: _native.Results) -> None:
        self._native = native

    def __reduce__(self) -> tuple[object, ...]:
        return open_results, (str(self.path),)

    @property
    def path(self) -> Path:
        """Folder of the results."""
        return Path(self._native.path)

    @property
    def report(self) -> Path:
        """Report to read in a browser."""
        return self.path / "report.html"

    @property
    def title(self) -> str:
        """Title of the scenario."""
        return self._native.title

    @property
    def command(self) -> str:
        """Command line that gives the same results."""
        return self._native.command

    @cached_property
    def points(self) -> list[dict[str, str]]:
        """Settings of each point of the sweep; one without settings if nothing is swept."""
        return [dict(settings) for settings in self._native._points]

    @cached_property
    def runs(self) -> list[Run]:
        """Runs, in the order of the plan."""
        rows = self._native._runs
        return [Run(row[0], dict(row[1]), row[2], row[3], Path(row[4]), row[5], row[6]) for row in rows]

    @property
    def fingerprints(self) -> list[str]:
        """Fingerprints of the runs: the same as those that the command line prints."""
        return [run.fingerprint for run in self.runs]

    @cached_property
    def summary(self) -> Table:
        """Means over the seeds: a row for each point and measure, with ``n``, ``mean`` and ``ci95``."""
        return Table(self._native._summary)

    @cached_property
    def measures(self) -> Table:
        """Measures: a row for each run and measure."""
        return Table(self._native._measures)

    def value(self, name: str, point: int = 0) -> Estimate:
        """Return a measure of a point, or a counter or gauge at the end, averaged over the seeds."""
        return Estimate(*self._native._value(name, point))

    def series(self, *patterns: str, constant: bool = False, long: bool = False) -> Table:
        """Return the series whose names match a pattern, of all runs.

        Parameters
        ----------
        patterns
            Names such as ``flow.*.cwnd``; ``*`` stands for any characters. Without patterns: all.
        constant
            Set to keep series that have one value in all runs.
        long
            Set for a row for each sample of each series, instead of a column for each series.

        >>> import bentpipe
        >>> results = bentpipe.parse(bentpipe.EXAMPLE).run(out=folder)
        >>> results.series("*.sender.cwnd").columns
        ['point', 'seed', 'time_s', 'flow.file.sender.cwnd [B]']
        """
        return Table(self._native._series(list(patterns), constant, long))

    def __repr__(self) -> str:
        points, runs = len(self.points), len(self.runs)
        return f"<bentpipe.Results {self.title!r}: {_counted(points, 'point')}, {_counted(runs, 'run')}>"

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self.title)}</b> ({escape(str(self.path))})</p>{self.summary._repr_html_()}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def open_results(path: str | PathLike[str]) -> Results:
    """Open a folder of results that a run left."""
    return Results(_native.open(Path(path)))
