"""Process that runs parts of campaigns for a thread, one after the other.

What a run does to its process, as without memory, the thread survives: it then has the exit code, and starts another process for
the next part. The start of an interpreter takes a tenth of a second, which each part would pay for otherwise.
"""

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

#: Seconds after which a process without work ends.
IDLE_S = 60.0

#: Characters that are kept of what a process that ended by force wrote to its standard error.
MAX_ERROR = 2000

#: What the process runs.
_PROGRAM = "from bentpipe._child import serve; from bentpipe.campaign import _main; serve(_main)"

_own = threading.local()
_all: set["Child"] = set()


def of_thread() -> "Child":
    """Return the process of this thread. It is started when it gets work."""
    if not hasattr(_own, "child"):
        _own.child = Child()
        _all.add(_own.child)
    child: Child = _own.child
    return child


class Child:
    """Process that runs parts."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._errors: Any = None

    def run(self, words: list[str]) -> tuple[int, str]:
        """Run a part. Return its exit code and its error; those of the process if it ended with it."""
        for _ in range(2):
            process = self._started()
            answer = ""
            with contextlib.suppress(BrokenPipeError):
                assert process.stdin and process.stdout
                process.stdin.write(json.dumps(words) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            if answer:
                code, error = json.loads(answer)
                return int(code), str(error)
            code, error = self.close()
            if code != 0:
                return code, error
            # It had no work for so long that it ended just then.
        return 1, "its process ended without a reason"

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._errors = tempfile.TemporaryFile()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
        return self._process

    def close(self) -> tuple[int, str]:
        """End the process. Return its exit code and what it wrote to its standard error."""
        process, self._process = self._process, None
        if process is None:
            return 0, ""
        for stream in (process.stdin, process.stdout):
            # What it did not read is lost with it.
            with contextlib.suppress(BrokenPipeError):
                if stream:
                    stream.close()
        code = process.wait()
        with self._errors as errors:
            errors.seek(0)
            return code, errors.read().decode(errors="replace").strip()[-MAX_ERROR:]


@atexit.register
def close_all() -> None:
    """End all processes of this one. Each finishes its part first."""
    for child in list(_all):
        _all.discard(child)
        child.close()


def serve(main: Callable[[list[str]], tuple[int, str]]) -> None:
    """Run parts as they come on standard input until it ends, and answer on standard output."""
    # What a part prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # A line is read from the descriptor, so that none waits in a buffer while `select` sees nothing.
    lines = os.fdopen(os.dup(0), "rb", buffering=0)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        while select.select([lines], [], [], IDLE_S)[0] and (line := lines.readline()):
            answers.write(json.dumps(main(json.loads(line))) + "\n")
            answers.flush()
