"""Scenarios."""

import pickle
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path

from bentpipe import _native
from bentpipe._custom import assigned
from bentpipe._progress import Callback, native_callback
from bentpipe._results import Results

EXAMPLE = """\
title = "A file over a satellite"
duration = "20 s"

node.server = {}
node.ground = { kind = "router" }
node.client = {}
[link.satellite]
between = ["server", "ground"]
rate = "1 Mbit/s"
delay = "270 ms"
[link.home]
between = ["ground", "client"]
delay = "10 ms"
rate = "100 Mbit/s"
[flow.file]
from = "server"
to = "client"
traffic = "tcp"
"""


class Scenario:
    """Scenario with its overrides. Immutable: methods return another one.

    It is pickled as its text and overrides. Relative paths in it start at the folder of its file.
    """

    def __init__(self, native: _native.Scenario) -> None:
        self._native = native

    def __reduce__(self) -> tuple[object, ...]:
        local = self._native._local_class
        if local is not None:
            raise pickle.PicklingError(f'"{local}" is a class of this process, which another one does not know')
        return _rebuilt, self._native._parts()

    def __dask_tokenize__(self) -> str:
        """Return the content hash, so that Dask knows equal scenarios."""
        return self.hash

    @property
    def name(self) -> str:
        """Name of the file, as errors give it."""
        return self._native.name

    @property
    def title(self) -> str:
        """Title; empty if it has none."""
        return self._native.title

    @property
    def text(self) -> str:
        """Text of the file, without overrides."""
        return self._native.text

    @property
    def notes(self) -> list[str]:
        """Notes on the file, such as older spellings."""
        return self._native.notes

    @property
    def axes(self) -> dict[str, int]:
        """Axes of the sweep with their numbers of values."""
        return dict(self._native.axes)

    @property
    def hash(self) -> str:
        """Hash of all that results depend on: scenario, files that it names, seeds, version."""
        return self._native.hash

    def set(self, key: str, value: object) -> "Scenario":
        """Return a scenario with a key set, as ``--set KEY=VALUE`` does.

        A text is taken as on the command line. Lists, tables and numbers are taken as TOML, and so are classes derived from `Controller`,
        `Element` and `Source`.

        >>> import bentpipe
        >>> scenario = bentpipe.parse(bentpipe.EXAMPLE)
        >>> scenario.set("link.satellite.delay", "20 ms").check() == scenario.check()
        False
        """
        return Scenario(self._native.set(key, assigned(value)))

    def sweep(self, axes: Mapping[str, Iterable[object] | str]) -> "Scenario":
        """Return a scenario that sweeps keys, each over a list of values or a range such as ``1 to 9 by 2``.

        >>> import bentpipe
        >>> swept = bentpipe.parse(bentpipe.EXAMPLE).sweep({"link.satellite.delay": ["20 ms", "270 ms"]})
        >>> swept.axes
        {'link.satellite.delay': 2}
        """
        native = self._native
        for key, values in axes.items():
            native = native.sweep(key, values if isinstance(values, str) else [assigned(value) for value in values])
        return Scenario(native)

    def check(self) -> str:
        """Check all points without running them, and return the budget of the first one, as ``bentpipe check`` prints it.

        Raises
        ------
        ScenarioError
            If the scenario is invalid at any point.
        """
        return self._native.check()

    def to_toml(self) -> str:
        """Return the first point's scenario as TOML, with all defaults written out."""
        return self._native.to_toml()

    def run(
        self,
        *,
        seed: int | None = None,
        seeds: int | None = None,
        jobs: int = 0,
        out: str | PathLike[str] = "runs",
        force: bool = False,
        progress: Callback | bool | None = None,
    ) -> Results:
        """Run all points of the sweep with all seeds, as ``bentpipe run`` does. A finished run is not run again.

        Ctrl-C ends it within half a second and keeps finished runs; the same call goes on from there. Other threads of Python run
        meanwhile.

        Parameters
        ----------
        seed, seeds
            First seed and number of seeds. Default: those of the scenario.
        jobs
            Number of runs at a time. Default: one per processor.
        out
            Folder in which the folder of results is made.
        force
            Set to run finished runs again.
        progress
            ``True`` for a line on standard error, or a function that is called with a `Progress` on the calling thread. An
            exception in it ends the run and is raised.

        >>> import bentpipe
        >>> shares = []
        >>> results = bentpipe.parse(bentpipe.EXAMPLE).run(out=folder, progress=lambda it: shares.append(it.share))
        >>> shares[-1]
        1.0
        """
        call = native_callback(progress)
        native = self._native.run(seed=seed, seeds=seeds, jobs=jobs, out=Path(out), force=force, progress=call)
        return Results(native)

    def __repr__(self) -> str:
        return f"<bentpipe.Scenario {self.name!r}: {self.title!r}>"


def load(path: str | PathLike[str]) -> Scenario:
    """Read a scenario file. Relative paths in it start at its folder."""
    return Scenario(_native.load(Path(path)))


def parse(text: str, name: str = "scenario.toml", folder: str | PathLike[str] | None = None) -> Scenario:
    """Parse the text of a scenario file, called `name` in errors. Relative paths in it start at `folder`."""
    return Scenario(_native.parse(text, name, None if folder is None else Path(folder)))


def _rebuilt(text: str, name: str, folder: str, overrides: list[tuple[str, str]]) -> Scenario:
    return Scenario(_native.Scenario._rebuilt(text, name, Path(folder), overrides))
