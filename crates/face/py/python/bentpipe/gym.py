"""A Gymnasium environment in which an agent is the congestion controller of a flow.

It needs the package ``gymnasium``. An episode is a run of a scenario, and a step a round trip of the flow:

>>> import bentpipe
>>> from bentpipe.gym import CongestionEnv
>>> env = CongestionEnv(bentpipe.parse(bentpipe.EXAMPLE), flow="file")
>>> observation, info = env.reset(seed=1)
>>> over = False
>>> while not over:
...     observation, reward, over, truncated, info = env.step([0.5])
>>> info["results"].value("flow.file.goodput").mean > 0.5e6
True
"""

import itertools
import queue
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from bentpipe import _native
from bentpipe._controllers import Controller, register
from bentpipe._results import Results
from bentpipe._scenario import Scenario

#: Numbers of the environments of this process, so that each has a controller of its own.
_NUMBERS = itertools.count(1)

#: Upper ends of the observation: log2 of the window in segments, queueing delay, delivery, losses, round trip.
_HIGH = np.array([40.0, 1e3, 1e3, 2.0, 1e4], dtype=np.float32)


@dataclass(frozen=True)
class Round:
    """What happened in a round trip."""

    #: Its start, and its end, in seconds from the start of the run.
    begin: float
    end: float
    #: Bytes that were delivered.
    delivered: int
    #: Congestion window at its end, in bytes.
    cwnd: float
    #: Largest segment in bytes.
    smss: int
    #: Smoothed and least round trip in seconds.
    srtt: float
    min_rtt: float
    #: Number of recoveries and timeouts that began.
    losses: int
    timeouts: int

    @property
    def rate(self) -> float:
        """Delivered bit/s."""
        return 8 * self.delivered / max(self.end - self.begin, 1e-9)


def goodput_less_delay(it: Round) -> float:
    """Return the delivered Mbit/s, times the share of the round trip that is not queueing."""
    return it.rate / 1e6 * min(it.min_rtt / it.srtt, 1.0)


class CongestionEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Environment in which an agent sets the congestion window of a TCP flow once a round trip.

    The action is a number a from -1 to 1; it multiplies the window by two to the power of a. Losses do not change the window, except
    that a timeout takes it to a segment. The observation has five numbers:

    1. the logarithm to base 2 of the window in segments;
    2. smoothed round trip over the least one, less one: queueing;
    3. bytes delivered in the round over the window;
    4. recoveries and timeouts that began in it, at most 2;
    5. the smoothed round trip in seconds.

    An episode ends with the run. The last `info` has its ``results``; others have the ``round``. The seed of `reset` is the seed of the
    run, so equal seeds and actions give equal episodes.

    Parameters
    ----------
    scenario
        Scenario without a sweep.
    flow
        Name of the flow; its traffic is ``tcp``.
    reward
        Function of a `Round`. Default: `goodput_less_delay`.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(
        self, scenario: Scenario, flow: str, reward: Callable[[Round], float] = goodput_less_delay
    ) -> None:
        if scenario.axes:
            raise ValueError(f"{scenario.name}: expected a scenario without a sweep, got one over {', '.join(scenario.axes)}")
        self.observation_space = gymnasium.spaces.Box(np.zeros(5, dtype=np.float32), _HIGH, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, shape=(1,), dtype=np.float32)
        self._reward = reward
        identity = f"gym-{next(_NUMBERS)}@process"
        self._seat = _Seat()
        register(identity, self._seat.controller, wants_sent=False)
        # A run must not outlive the interpreter.
        weakref.finalize(self, self._seat.stop)
        key = f"flow.{flow}.traffic.controller"
        self._scenario = scenario.set(key, {"name": "custom", "id": identity})
        self._scenario.check()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode. Without a seed it is drawn from the environment's generator."""
        super().reset(seed=seed)
        first = self._seat.begin(self._scenario, seed if seed is not None else int(self.np_random.integers(2**31)))
        if not isinstance(first, Round):
            raise RuntimeError("the flow sent nothing: the run ended before its connection was established")
        return _observed(first), {"round": first}

    def step(
        self, action: NDArray[np.float32] | Sequence[float]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Set the window, and let a round trip pass."""
        episode = self._seat.episode
        if episode is None or episode.last is None:
            raise RuntimeError("reset begins an episode")
        before = episode.last
        episode.actions.put(float(np.clip(np.asarray(action, dtype=np.float64).reshape(-1)[0], -1.0, 1.0)))
        after = episode.next()
        if isinstance(after, Round):
            return _observed(after), float(self._reward(after)), False, False, {"round": after}
        return _observed(before), 0.0, True, False, {"results": after}

    def close(self) -> None:
        """End the episode and its run, and remove its folder."""
        self._seat.stop()


class _Seat:
    """What the runs of an environment share with it; it outlives neither."""

    def __init__(self) -> None:
        self.episode: _Episode | None = None

    def begin(self, scenario: Scenario, seed: int) -> "Round | Results":
        self.stop()
        # The run looks for it as soon as it has begun.
        self.episode = episode = _Episode(scenario, seed)
        episode.start()
        return episode.next()

    def controller(self, connection: _native.Connection) -> Controller:
        return _Agent(connection, self.episode)

    def stop(self) -> None:
        episode, self.episode = self.episode, None
        if episode is not None:
            episode.stop()


class _Stopped(Exception):
    """Ends the run of an episode that nobody follows any more."""


class _Episode:
    """A run on a thread of its own, in a folder that is there until the episode is stopped."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.actions: queue.Queue[float | None] = queue.Queue()
        self.news: queue.Queue[Round | Results | BaseException] = queue.Queue()
        self.last: Round | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="bentpipe-gym-")
        # At the interpreter's end a finalizer stops it; other threads would be waited for.
        self._thread = threading.Thread(target=self._run, args=(scenario, seed), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self, scenario: Scenario, seed: int) -> None:
        try:
            self.news.put(scenario.run(seed=seed, seeds=1, jobs=1, out=self._folder.name))
        except BaseException as error:
            self.news.put(error)

    def next(self) -> Round | Results:
        """Return the next round, or the results at the end of the run. Raises what ended the run."""
        news = self.news.get()
        if isinstance(news, BaseException):
            self.last = None
            raise news
        self.last = news if isinstance(news, Round) else None
        return news

    def ask(self, it: Round) -> float:
        """Report a round on the thread of the run, and wait for the action."""
        self.news.put(it)
        action = self.actions.get()
        if action is None:
            raise _Stopped
        return action

    def stop(self) -> None:
        self.actions.put(None)
        self._thread.join()
        self._folder.cleanup()


class _Agent(Controller):
    """Controller that asks an episode for its window once a round trip."""

    def __init__(self, connection: _native.Connection, episode: _Episode | None) -> None:
        super().__init__(connection)
        self._episode = episode
        self._begin = 0.0
        self._until = 0.0
        self._srtt = self._min_rtt = 0.0
        self._clear()

    def _clear(self) -> None:
        self._delivered = self._losses = self._timeouts = 0

    def _end_round(self, now: float) -> None:
        it = Round(
            self._begin, now, self._delivered, self.cwnd, self.smss, self._srtt, self._min_rtt, self._losses, self._timeouts
        )
        if self._episode is not None:
            self.cwnd = min(max(self.cwnd * 2.0 ** self._episode.ask(it), self.smss), self.max_window)
            self.ssthresh = self.cwnd
        self._begin, self._until = now, now + self._srtt
        self._clear()

    def on_established(self, now: float, rtt: float | None) -> None:
        self._begin = now
        self._srtt = self._min_rtt = rtt or 1e-3
        self._end_round(now)

    def on_ack(self, ack: _native.Ack) -> None:
        self._srtt = ack.srtt or self._srtt
        self._min_rtt = ack.min_rtt or self._min_rtt
        self._delivered += ack.delivered
        if ack.now >= self._until:
            self._end_round(ack.now)

    def on_loss(self, loss: _native.Loss) -> None:
        self._losses += 1

    def on_recovered(self, ack: _native.Ack) -> None:
        pass

    def on_timeout(self, loss: _native.Loss, first: bool) -> None:
        self._timeouts += 1
        self.cwnd = self.smss

    def on_spurious(self) -> None:
        pass

    def on_idle(self, restart_window: int) -> None:
        pass


def _observed(it: Round) -> NDArray[np.float32]:
    queueing = max(it.srtt / it.min_rtt - 1.0, 0.0) if it.min_rtt > 0 else 0.0
    values = [
        max(np.log2(it.cwnd / it.smss), 0.0),
        queueing,
        it.delivered / it.cwnd,
        it.losses + it.timeouts,
        it.srtt,
    ]
    return np.clip(np.array(values, dtype=np.float32), 0.0, _HIGH)
