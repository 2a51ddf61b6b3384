"""Folders of results."""

import warnings
from collections.abc import Sequence
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from bentpipe import _native
from bentpipe._table import Table, TextTable


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


class Plot(NamedTuple):
    """Diagram of the report."""

    title: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | PathLike[str]) -> None:
        """Write the diagram as an SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")


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

    @cached_property
    def ledger(self) -> Table:
        """Accounts of packets: a row for each run, ``sender``, ``column``, ``place`` and ``reason``, over the whole run.

        In each run the packets ``sent`` and ``copied`` of a sender are ``delivered``, ``taken-over``, ``dropped`` or ``remaining``.

        >>> import bentpipe
        >>> results = bentpipe.parse(bentpipe.EXAMPLE).set("duration", "2 s").run(out=folder)
        >>> results.ledger.columns
        ['point', 'seed', 'sender', 'column', 'place', 'reason', 'packets', 'in_warm_up', 'duplicates', 'arrived', 'lost', 'bytes']
        """
        return Table(self._native._ledger)

    @cached_property
    def units(self) -> Table:
        """Accounts of units: a row for each run, ``flow``, ``column``, ``place`` and ``reason``, over the whole run.

        Units are bytes, calls, requests, bundles or packets. In each run those ``offered`` and ``copied`` of a flow are
        ``refused``, ``delivered``, ``duplicates``, ``dropped`` or ``remaining``.

        >>> import bentpipe
        >>> results = bentpipe.parse(bentpipe.EXAMPLE).set("duration", "2 s").run(out=folder)
        >>> results.units.columns
        ['point', 'seed', 'flow', 'unit', 'column', 'place', 'reason', 'count']
        """
        return Table(self._native._units)

    def value(self, name: str, point: int = 0) -> Estimate:
        """Return a measure of a point, or a counter or gauge at the end, averaged over the seeds."""
        return Estimate(*self._native._value(name, point))

    def series(self, *patterns: str, constant: bool = False, long: bool = False) -> Table:
        """Return the series whose names match a pattern, of all runs.

        Parameters
        ----------
        patterns
            Names such as ``flow.*.cwnd``; a star stands for any characters. Without patterns: all.
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

    def values(self, name: str, point: int = 0) -> list[float]:
        """Return the values of a measure, or of a counter or gauge at the end, in the order of a point's seeds."""
        return self._native._values(name, point)

    def seeds_needed(
        self, name: str, *, relative: float | None = None, absolute: float | None = None, point: int = 0
    ) -> int | None:
        """Return the number of seeds for a 95 % interval of at most this half-width.

        It takes the variance of the present seeds (Law, *Simulation Modeling and Analysis*, section 9.4.1), so a few more seeds than
        two make it reliable.

        Parameters
        ----------
        relative, absolute
            Half-width, as a share of the mean or in the measure's unit. Exactly one of them.

        Returns
        -------
        The number, or ``None`` if there are fewer than two seeds or more than a billion are needed.

        >>> import bentpipe
        >>> results = bentpipe.parse(bentpipe.EXAMPLE).set("duration", "2 s").run(seeds=2, out=folder)
        >>> results.seeds_needed("flow.file.goodput", relative=0.05)  # nothing in it is random
        2
        """
        if (relative is None) == (absolute is None):
            raise TypeError("expected either relative or absolute")
        half_width = absolute if absolute is not None else (relative or 0.0) * abs(self.value(name, point).mean)
        return self._native._seeds_needed(name, half_width, point)

    def convergence(self, name: str, point: int = 0) -> list[Estimate]:
        """Return the mean of a measure over the first one, two, three and more seeds of a point.

        >>> import bentpipe
        >>> results = bentpipe.parse(bentpipe.EXAMPLE).set("duration", "2 s").run(seeds=2, out=folder)
        >>> [estimate.n for estimate in results.convergence("flow.file.goodput")]
        [1, 2]
        """
        return [Estimate(*row) for row in self._native._running_means(name, point)]

    def fairness(self, *patterns: str) -> Table:
        """Return Jain's index over the series whose names match, at each instant of each run.

        The shares are the values of gauges such as ``flow.*.goodput``, and what counters gained since the instant before. ``flows``
        counts those with a share above zero; the index is NaN where nothing is shared.

        >>> import bentpipe
        >>> results = bentpipe.parse(bentpipe.EXAMPLE).set("duration", "2 s").run(out=folder)
        >>> results.fairness("flow.*.sender.cwnd")["fairness"][-1]
        1.0
        """
        return Table(self._native._fairness(list(patterns)))

    @cached_property
    def distributions(self) -> Table:
        """Cumulative distributions, such as of one-way delays, over all seeds of each point: the ``share`` below each ``value``."""
        return Table(self._native._distributions)

    def percentiles(self, *patterns: str, shares: Sequence[float] = (0.05, 0.5, 0.95)) -> Table:
        """Return quantiles over the seeds of the series whose names match, at each instant.

        >>> import bentpipe
        >>> results = bentpipe.parse(bentpipe.EXAMPLE).set("duration", "2 s").run(seeds=2, out=folder)
        >>> results.percentiles("*.sender.cwnd", shares=[0.5]).columns
        ['point', 'seeds', 'time_s', 'p50 of flow.file.sender.cwnd [B]']
        """
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError(f"shares: expected 0 to 1, got {list(shares)}")
        return Table(self._native._quantiles(list(patterns), list(shares)))

    def compare(self, other: "Results | None" = None, *, point: int = 0, other_point: int = 0) -> Table:
        """Return the differences of measures to another point, seed by seed.

        Runs with the same seed have the same random numbers, so the interval of a paired difference leaves out what the seed does to
        both. ``clear`` is 1 where it leaves out zero. Without `other` both points are of these results. Measures that mean something
        else in each, as they are of two versions of the definitions, are left out; a warning lists them.
        """
        frame, note = self._native._compare(point, (other or self)._native, other_point)
        if note is not None:
            warnings.warn(note, stacklevel=2)
        return Table(frame)

    def tables(self, point: int = 0) -> list[TextTable]:
        """Return the tables of flows and links of a point, as the report has them: with units and intervals."""
        return [TextTable(*table) for table in self._native._tables(point)]

    def notes(self, point: int = 0) -> list[str]:
        """Return notes on what the tables of a point do not show: flows without goodput with the cause, copies that never start.

        >>> import bentpipe
        >>> quiet = bentpipe.parse(bentpipe.EXAMPLE).set("duration", "2 s").set("flow.file.active", False)
        >>> quiet.run(out=folder).notes()
        ['file did not run: it is turned off for all of its time (active = false)']
        """
        return self._native._notes(point)

    def plots(self, point: int = 0) -> list[Plot]:
        """Return the report's diagrams of a point: of its first seed over time, and distributions over all seeds."""
        return [Plot(*plot) for plot in self._native._plots(point)]

    def __repr__(self) -> str:
        points, runs = len(self.points), len(self.runs)
        return f"<bentpipe.Results {self.title!r}: {_counted(points, 'point')}, {_counted(runs, 'run')}>"

    def _repr_html_(self) -> str:
        tables = "".join(table._repr_html_() for table in self.tables())
        points = f"<p>point 0 of {len(self.points)}</p>" if len(self.points) > 1 else ""
        return f"<p><b>{escape(self.title)}</b> ({escape(str(self.path))})</p>{points}{tables}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def open_results(path: str | PathLike[str]) -> Results:
    """Open a folder of results that a run left."""
    return Results(_native.open(Path(path)))
