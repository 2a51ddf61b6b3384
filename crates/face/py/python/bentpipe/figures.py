"""Figures for papers, by matplotlib: at column width, with units, legends and intervals.

It needs the package ``matplotlib``. Each function returns a figure, which ``figure.savefig("name.pdf")`` writes:

>>> import bentpipe
>>> from bentpipe import figures
>>> scenario = bentpipe.parse(bentpipe.EXAMPLE).sweep({"link.satellite.delay": ["20 ms", "270 ms"]})
>>> results = scenario.run(seeds=2, out=folder)
>>> figures.measure(results, "flow.file.goodput").savefig(folder / "goodput.pdf")
"""

import io
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bentpipe._results import Results

#: Width of a column of a paper with two columns, in inches.
COLUMN = 3.4

#: Width of its page.
PAGE = 7.0

#: Settings of all figures: small text, fonts that a journal takes, thin lines.
STYLE: Any = {
    "font.size": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "lines.linewidth": 1.0,
    "pdf.fonttype": 42,
    "svg.hashsalt": "bentpipe",
}

#: Units that numbers are shown in, from the greatest.
_PREFIXES = {
    "bit/s": [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")],
    "B": [(1e6, "MB"), (1e3, "kB")],
    "s": [(1.0, "s"), (1e-3, "ms")],
}


def series(
    results: Results,
    *patterns: str,
    points: Iterable[int] | None = None,
    shares: tuple[float, float] = (0.05, 0.95),
    width: float = COLUMN,
) -> Figure:
    """Draw series over time: the median over the seeds, and a band between two quantiles.

    >>> import bentpipe
    >>> results = bentpipe.parse(bentpipe.EXAMPLE).run(out=folder)
    >>> series(results, "flow.*.sender.cwnd").axes[0].get_ylabel()
    'cwnd (MB)'
    """
    table = results.percentiles(*patterns, shares=[shares[0], 0.5, shares[1]])
    wanted = list(range(len(results.points)) if points is None else points)
    titles = [title.removeprefix("p50 of ") for title in table.columns if title.startswith("p50 of ")]
    units = {table.units.get(f"p50 of {title}", "") for title in titles}
    if len(units) > 1:
        raise ValueError(f"expected series of one unit, got {', '.join(sorted(unit or 'none' for unit in units))}")
    at, times = table["point"], table["time_s"]
    columns = {share: f"p{100 * share:g} of " for share in (shares[0], 0.5, shares[1])}
    peak = max((abs(value) for title in titles for value in table[f"{columns[shares[1]]}{title}"] if value == value), default=0.0)
    factor, unit = _scale(units.pop() if units else "", peak)
    with mpl.rc_context(STYLE):
        figure, axes = _axes(width)
        for point in wanted:
            rows = [row for row, number in enumerate(at) if number == point]
            for title in titles:
                low, middle, high = (
                    [table[f"{prefix}{title}"][row] / factor for row in rows] for prefix in columns.values()
                )
                time = [times[row] for row in rows]
                (line,) = axes.plot(time, middle, label=_label(results, point, title, titles, wanted))
                if low != high:
                    axes.fill_between(time, low, high, color=line.get_color(), alpha=0.25, linewidth=0)
        axes.set_xlabel("time (s)")
        axes.set_ylabel(_titled(_metric(titles), unit))
        _legend(axes)
    return figure


def measure(results: Results, *names: str, width: float = COLUMN) -> Figure:
    """Draw measures over the points of a sweep: means with their 95 % intervals. A numeric axis is drawn to scale."""
    if len(results.points) < 2:
        raise ValueError("expected results of a sweep, got one point")
    keys = list(results.points[0])
    labels = [", ".join(settings.values()) for settings in results.points]
    numbers = _numbers(labels) if len(keys) == 1 else None
    estimates = {name: [results.value(name, point) for point in range(len(labels))] for name in names}
    units = {estimate.unit for row in estimates.values() for estimate in row}
    if len(units) != 1:
        raise ValueError(f"expected measures of one unit, got {', '.join(sorted(units))}")
    peak = max(abs(estimate.mean) for row in estimates.values() for estimate in row)
    factor, unit = _scale(units.pop(), peak)
    with mpl.rc_context(STYLE):
        figure, axes = _axes(width)
        for name, row in estimates.items():
            means = [estimate.mean / factor for estimate in row]
            halves = [(estimate.ci95 or 0.0) / factor for estimate in row]
            places = numbers[0] if numbers else list(range(len(labels)))
            axes.errorbar(places, means, yerr=halves, label=name, marker="o", markersize=3, capsize=2, linestyle="-" if numbers else "none")
        if numbers:
            axes.set_xlabel(_titled(keys[0], numbers[1]))
        else:
            axes.set_xticks(range(len(labels)), labels, rotation=20, ha="right")
            axes.set_xlabel(", ".join(keys))
        axes.set_ylabel(_titled(names[0].rpartition(".")[2] if len(names) == 1 else _metric(list(names)), unit))
        if min(estimate.mean for row in estimates.values() for estimate in row) >= 0:
            axes.set_ylim(bottom=0)
        _legend(axes)
    return figure


def distribution(results: Results, *subjects: str, width: float = COLUMN) -> Figure:
    """Draw cumulative distributions, such as of one-way delays, of the subjects whose names are given; without names of all."""
    rows = results.distributions.rows()
    curves: dict[tuple[int, str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if not subjects or row["subject"] in subjects:
            curves.setdefault((row["point"], row["subject"], row["unit"]), []).append((row["value"], row["share"]))
    if not curves:
        raise ValueError(f"no distribution of {', '.join(subjects) or 'any flow'}")
    peak = max(value for curve in curves.values() for value, _ in curve)
    factor, unit = _scale(next(iter(curves))[2], peak)
    with mpl.rc_context(STYLE):
        figure, axes = _axes(width)
        for (point, subject, _), curve in curves.items():
            label = subject if len(results.points) == 1 else f"{subject}, {', '.join(results.points[point].values())}"
            axes.step([value / factor for value, _ in curve], [share for _, share in curve], where="post", label=label)
        axes.set_xlabel(_titled("delay", unit))
        axes.set_ylabel("share of packets")
        axes.set_ylim(0, 1)
        _legend(axes)
    return figure


def convergence(results: Results, name: str, point: int = 0, width: float = COLUMN) -> Figure:
    """Draw the mean of a measure over the first seeds with its 95 % interval, against the number of seeds."""
    estimates = results.convergence(name, point)
    factor, unit = _scale(estimates[-1].unit, abs(estimates[-1].mean))
    with mpl.rc_context(STYLE):
        figure, axes = _axes(width)
        count = [estimate.n for estimate in estimates]
        axes.plot(count, [estimate.mean / factor for estimate in estimates], marker=".")
        known = [estimate for estimate in estimates if estimate.ci95 is not None]
        axes.fill_between(
            [estimate.n for estimate in known],
            [(estimate.mean - (estimate.ci95 or 0.0)) / factor for estimate in known],
            [(estimate.mean + (estimate.ci95 or 0.0)) / factor for estimate in known],
            alpha=0.25,
            linewidth=0,
        )
        axes.set_xlabel("seeds")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel(_titled(name.rpartition(".")[2], unit))
    return figure


def _axes(width: float) -> tuple[Figure, Axes]:
    # Without pyplot: nothing is kept, and no window opens.
    figure = Figure(figsize=(width, width * 0.62), layout="constrained")
    # Notebooks show it; of itself a figure without pyplot is a line of text there.
    setattr(figure, "_repr_svg_", partial(_svg, figure))  # noqa: B010
    return figure, figure.add_subplot()


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(text, format="svg")
    return text.getvalue()


def _legend(axes: Axes) -> None:
    if len(axes.get_legend_handles_labels()[1]) > 1:
        axes.legend(frameon=False)


def _scale(unit: str, peak: float) -> tuple[float, str]:
    for factor, name in _PREFIXES.get(unit, []):
        if peak >= factor:
            return factor, name
    return 1.0, unit


def _titled(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _metric(titles: Sequence[str]) -> str:
    names = {title.partition(" [")[0].rpartition(".")[2] for title in titles}
    return names.pop() if len(names) == 1 else "value"


def _label(results: Results, point: int, title: str, titles: Sequence[str], points: Sequence[int]) -> str:
    name = title.partition(" [")[0]
    settings = ", ".join(results.points[point].values())
    if len(points) == 1:
        return name
    return settings if len(titles) == 1 else f"{name}, {settings}"


def _numbers(labels: Sequence[str]) -> tuple[list[float], str] | None:
    """Return values such as ``20 ms`` as numbers with their unit, if all have the same."""
    parts = [label.partition(" ")[::2] for label in labels]
    if len({unit for _, unit in parts}) != 1:
        return None
    try:
        return [float(number) for number, _ in parts], parts[0][1]
    except ValueError:
        return None
