"""Scenarios, runs and results of bentpipe, a satellite-network laboratory.

>>> import bentpipe
>>> scenario = bentpipe.parse(bentpipe.EXAMPLE)
>>> results = scenario.set("link.satellite.delay", "250 ms").run(out=folder)
>>> round(results.value("flow.file.goodput").mean / 1e6, 1)
0.9

Everything is computed by the code that the command line runs, so results and fingerprints are the same.
"""

from bentpipe import _native, campaign, channel, dtn, rohc, ts
from bentpipe._account import Account, Figures, LeftOut
from bentpipe._controllers import Controller
from bentpipe._custom import Element, Source
from bentpipe._errors import BentpipeError, InternalError, Problem, RohcError, RunError, ScenarioError
from bentpipe._progress import Progress
from bentpipe._results import Estimate, Plot, Results, Run
from bentpipe._results import open_results as open
from bentpipe._scenario import EXAMPLE, Scenario, load, parse
from bentpipe._table import Table, TextTable

__all__ = [
    "EXAMPLE",
    "Account",
    "BentpipeError",
    "Controller",
    "Element",
    "Estimate",
    "Figures",
    "InternalError",
    "LeftOut",
    "Plot",
    "Problem",
    "Progress",
    "Results",
    "RohcError",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Source",
    "Table",
    "TextTable",
    "build_info",
    "campaign",
    "channel",
    "describe",
    "dtn",
    "load",
    "open",
    "parse",
    "rohc",
    "ts",
]

__version__: str = _native.build_info()[0]


def build_info() -> dict[str, str]:
    """Return the version, and an identifier of the build.

    A finished run counts only for the build that made it.

    >>> sorted(build_info())
    ['build', 'version']
    """
    version, build = _native.build_info()
    return {"version": version, "build": build}


def describe(name: str) -> str:
    """Return the description of a controller, medium, traffic or other scenario entry.

    >>> print(describe("cubic").splitlines()[0])
    flow.NAME.traffic.controller = { name = "cubic" }
    """
    return _native.describe(name)
