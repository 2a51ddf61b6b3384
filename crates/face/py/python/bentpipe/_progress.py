"""Progress of runs."""

import sys
from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """Progress of runs: share of the whole from 0 to 1, finished runs, all runs."""

    share: float
    finished: int
    runs: int


Callback = Callable[[Progress], object]


def native_callback(progress: Callback | bool | None) -> Callable[[float, int, int], object] | None:
    """Return the function that the extension calls on the calling thread."""
    if progress is None or progress is False:
        return None
    call = show_line if progress is True else progress
    return lambda share, finished, runs: call(Progress(share, finished, runs))


def show_line(progress: Progress) -> None:
    """Show progress in one line of standard error."""
    end = "\n" if progress.runs and progress.finished == progress.runs else ""
    text = f"\r{progress.share:6.1%}  {progress.finished} of {progress.runs} runs"
    print(text, end=end, file=sys.stderr, flush=True)
