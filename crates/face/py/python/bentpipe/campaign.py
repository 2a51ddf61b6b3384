"""Campaigns: sweeps too long for one command or one machine.

A campaign is a folder that any number of processes run parts of; they share nothing else. It is the folder of
``bentpipe campaign``, but for the build that runs it: a campaign is run by the program or package that planned it.

>>> import bentpipe
>>> scenario = bentpipe.parse(bentpipe.EXAMPLE).set("duration", "1 s")
>>> swept = scenario.sweep({"link.satellite.delay": ["9 ms", "20 ms"]})
>>> it = bentpipe.campaign.plan(swept, folder / "campaign", seeds=3)
>>> it.runs
6
>>> it.part(0, 6)
6
>>> it.gather().rows
6

`Campaign.run` drives it: by processes of this machine, or by workers of Dask, on a cluster too. In place of a folder, `plan` and `open`
take the address of one on object storage, such as ``s3://bucket/campaign``.
"""

import contextlib
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent import futures
from os import PathLike, cpu_count
from pathlib import Path
from typing import Any, NamedTuple

from bentpipe import _child, _native
from bentpipe._errors import RunError
from bentpipe._progress import Callback, native_callback
from bentpipe._scenario import Scenario
from bentpipe._store import Store, is_address

#: Seconds that a task should take: long beside its start, short beside a campaign.
TASK_S = 10.0

#: Seconds that a task takes at least, even at the end: its way to a worker takes some hundredths.
LEAST_S = 1.0

#: Most runs of a task.
MAX_RUNS = 1000

#: Most tasks for each worker at a time. So the scheduler's memory does not depend on the campaign.
TASKS_EACH = 4

#: Exit codes of a part: the campaign, a file or the build is at fault; interrupted.
_BAD, _INTERRUPTED = 2, 130

#: Error of a driver whose scheduler has ended.
_GONE = "the scheduler of Dask is gone: finished runs are kept, and the same call goes on from there"


class Status(NamedTuple):
    """State of a campaign."""

    #: Number of finished runs, those without a result included.
    finished: int
    #: Number of runs.
    runs: int
    #: Missing runs as ranges; the end is left out.
    missing: list[range]
    #: Runs without a result, and why; the first hundred.
    failed: dict[int, str]
    #: Parts that cannot be read, and why. Their runs are missing.
    damaged: dict[Path, str]


class Gathered(NamedTuple):
    """Tables of a campaign."""

    #: Parquet file with a row for each run.
    runs: Path
    #: CSV file with the means of each point.
    summary: Path
    #: Number of rows.
    rows: int


class Campaign:
    """Campaign in a folder, or on object storage with a copy in a folder of this machine."""

    def __init__(self, native: _native.Campaign, store: Store | None = None) -> None:
        self._native = native
        self._store = store

    @property
    def path(self) -> Path:
        """Folder."""
        return self._native.path

    @property
    def address(self) -> str:
        """Address on object storage, or absolute path of the folder: `open` of another process finds the campaign there."""
        return self._store.url if self._store else str(self.path.resolve())

    @property
    def title(self) -> str:
        """Title of the scenario."""
        return self._native.title

    @property
    def runs(self) -> int:
        """Number of runs: points times seeds."""
        return self._native.runs

    def status(self, *, retry: bool = False) -> Status:
        """Read what is finished. With `retry` runs without a result count as missing."""
        if self._store:
            self._store.pull(self.path)
        finished, missing, failed, damaged = self._native.status(retry)
        return Status(finished, self.runs, [range(*ends) for ends in missing], dict(failed), dict(damaged))

    def part(
        self, first: int, end: int, *, retry: bool = False, progress: Callback | bool | None = None
    ) -> int:
        """Run what is missing of the runs from `first` up to `end` in this process, and return how many it made."""
        if self._store is None:
            return self._native.part(first, end, retry, native_callback(progress))
        self._store.pull(self.path, range(first, end))
        try:
            return self._native.part(first, end, retry, native_callback(progress))
        finally:
            self._store.push(self.path)

    def gather(self) -> Gathered:
        """Write ``runs.parquet``, a row for each run, and ``summary.csv``, the means of each point."""
        if self._store:
            self._store.pull(self.path)
        return Gathered(*self._native.gather())

    def run(
        self,
        cluster: Any = None,
        *,
        retry: bool = False,
        progress: Callback | bool | None = None,
    ) -> Status:
        """Run all that is missing.

        Each task runs about ten seconds of work in a process of its own. A run that ends its process is found by halving, and
        noted as one without a result. Ctrl-C keeps what is finished; the same call goes on from there. Two drivers of one campaign
        waste time and do no harm.

        Parameters
        ----------
        cluster
            Number of processes on this machine (default: one per processor), or a ``Client`` of ``dask.distributed``, whose
            workers have the same build of this package and see the folder under the same path, or the object storage.
        retry
            Set to run again what has no result.
        progress
            As of `Scenario.run`.
        """
        if cluster is None or isinstance(cluster, int):
            with _Processes(cluster or cpu_count() or 1) as pool:
                _drive(self, pool, retry, progress)
        else:
            _drive(self, _Dask(cluster), retry, progress)
        return self.status()

    def __repr__(self) -> str:
        return f"<bentpipe.campaign.Campaign {str(self.path)!r}: {self.title!r}, {self.runs} runs>"


def plan(
    scenario: Scenario, folder: str | PathLike[str], *, seed: int | None = None, seeds: int | None = None
) -> Campaign:
    """Write the folder of a campaign from a scenario with a sweep.

    Up to 1000 points are read and checked; of a longer sweep a sample, with the values of each axis.
    """
    if not is_address(folder):
        return Campaign(_native.Campaign.plan(scenario._native, Path(folder), seed, seeds))
    with tempfile.TemporaryDirectory() as made:
        planned = _native.Campaign.plan(scenario._native, Path(made) / "campaign", seed, seeds)
        Store(str(folder)).create(planned.path)
    return open(folder)


def open(folder: str | PathLike[str]) -> Campaign:
    """Open the folder of a campaign."""
    if not is_address(folder):
        return Campaign(_native.Campaign.open(Path(folder)))
    store = Store(str(folder))
    return Campaign(_native.Campaign.open(store.mirror()), store)


class _Task(NamedTuple):
    """Range of runs for a process."""

    first: int
    end: int
    #: Number of processes that ended by force with it.
    deaths: int = 0


class _Ended(NamedTuple):
    """End of a process."""

    code: int
    error: str
    wall_s: float


def _work(folder: str, first: int, end: int, retry: bool) -> tuple[int, str, float]:
    """Run a part in the process of this thread: what a run does to the process, the worker survives."""
    began = time.monotonic()
    words = [folder, str(first), str(end)]
    code, error = _child.of_thread().run([*words, "--retry"] if retry else words)
    return code, error, time.monotonic() - began


class _Processes:
    """Processes of this machine."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = futures.ThreadPoolExecutor(workers)

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        _child.close_all()

    def submit(self, *arguments: Any) -> Any:
        return self._pool.submit(_work, *arguments)

    def ended(self, tasks: list[Any]) -> Iterator[Any]:
        yield from futures.wait(tasks, timeout=0.5, return_when=futures.FIRST_COMPLETED).done


class _Dask:
    """Workers of ``dask.distributed``."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def workers(self) -> int:
        with _scheduler():
            return max(1, sum(int(threads) for threads in self._client.nthreads().values()))

    def submit(self, *arguments: Any) -> Any:
        with _scheduler():
            return self._client.submit(_work, *arguments, pure=False, retries=2)

    def ended(self, tasks: list[Any]) -> Iterator[Any]:
        import distributed

        wait: Any = distributed.wait
        with _scheduler():
            try:
                ended = wait(tasks, timeout=0.5, return_when="FIRST_COMPLETED").done
            except distributed.TimeoutError:
                return
        yield from ended


@contextlib.contextmanager
def _scheduler() -> Iterator[None]:
    """Raise what tells that a scheduler of Dask is gone as a `RunError`.

    Its client cancels all tasks at once. It may find a scheduler again, but no task of the old one.
    """
    try:
        yield
    except (OSError, futures.CancelledError) as error:
        raise RunError(_GONE) from error


class _Queue:
    """Missing runs, cut into tasks."""

    def __init__(self, missing: list[range], workers: Callable[[], int]) -> None:
        self.rest = deque(missing)
        self.left = sum(len(runs) for runs in missing)
        self.suspects: deque[_Task] = deque()
        self.run_s: float | None = None
        self._workers = workers

    def next(self) -> _Task | None:
        """Return the next task: short at first, then of ten seconds, and short again at the end."""
        if self.suspects:
            return self.suspects.popleft()
        if not self.rest:
            return None
        runs = self.rest.popleft()
        most, least = (self._runs_in(span_s) for span_s in (TASK_S, LEAST_S))
        share = self.left // (4 * self._workers())
        size = max(1, min(most, max(share, least), MAX_RUNS, len(runs)))
        self.left -= size
        if size < len(runs):
            self.rest.appendleft(runs[size:])
        return _Task(runs.start, runs.start + size)

    def _runs_in(self, span_s: float) -> int:
        return 1 if self.run_s is None else round(span_s / max(self.run_s, 1e-6))

    def took(self, task: _Task, wall_s: float) -> None:
        """Learn how long runs take."""
        run_s = wall_s / (task.end - task.first)
        self.run_s = run_s if self.run_s is None else 0.7 * self.run_s + 0.3 * run_s

    def suspect(self, task: _Task) -> bool:
        """Halve the range of a process that ended by force. Return false if it is one run, for the second time."""
        runs = task.end - task.first
        if runs > 1:
            middle = task.first + runs // 2
            self.suspects.extend([_Task(task.first, middle), _Task(middle, task.end)])
        elif task.deaths == 0:
            self.suspects.append(task._replace(deaths=1))
        else:
            return False
        return True


def _drive(
    campaign: Campaign, pool: "_Processes | _Dask", retry: bool, progress: Callback | bool | None
) -> None:
    status = campaign.status(retry=retry)
    call = native_callback(progress)
    queue = _Queue(status.missing, lambda: pool.workers)
    running: dict[Any, _Task] = {}
    finished = status.finished
    path = campaign.address
    try:
        while True:
            # Processes of this machine wait for no scheduler: one each. Elsewhere the next task is there when one ends.
            most = pool.workers * (1 if isinstance(pool, _Processes) else TASKS_EACH)
            while len(running) < most and (task := queue.next()) is not None:
                running[pool.submit(path, task.first, task.end, retry)] = task
            if not running:
                return
            for done in list(pool.ended(list(running))):
                task = running.pop(done)
                ended = _ended(done)
                if ended.code == 0:
                    queue.took(task, ended.wall_s)
                elif ended.code == _BAD:
                    raise RunError(ended.error or "a part failed without a reason")
                elif ended.code == _INTERRUPTED:
                    raise KeyboardInterrupt
                elif queue.suspect(task):
                    continue
                else:
                    reason = f"killed: exit code {ended.code}"
                    last = ended.error.splitlines()[-1:]
                    campaign._native.note_failure(task.first, ": ".join([reason, *last]))
                    if campaign._store:
                        campaign._store.push(campaign.path)
                finished += task.end - task.first
            if call is not None:
                call(finished / max(1, campaign.runs), finished, campaign.runs)
    finally:
        for future in running:
            # A scheduler that is gone has no tasks to cancel.
            with contextlib.suppress(Exception):
                future.cancel()


def _ended(future: Any) -> _Ended:
    """Return how a task ended. A worker that died counts as one that its run ended by force."""
    try:
        return _Ended(*future.result())
    except futures.CancelledError as error:
        raise RunError(_GONE) from error
    except Exception as error:
        return _Ended(-1, f"{type(error).__name__}: {error}", 0.0)


def _main(words: list[str]) -> tuple[int, str]:
    """Run a part in the process that a worker has for it. Return the exit code of `bentpipe campaign part` and the error."""
    folder, first, end, *options = words
    try:
        open(folder).part(int(first), int(end), retry="--retry" in options)
    except KeyboardInterrupt:
        return _INTERRUPTED, ""
    except (OSError, RunError, ValueError) as error:
        return _BAD, str(error)
    except Exception as error:
        # A run's own failure is a row; what object storage raises has many types.
        return _BAD, f"{type(error).__name__}: {error}"
    return 0, ""
