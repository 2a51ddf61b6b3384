"""Congestion controllers in Python."""

import math
from collections.abc import Callable
from typing import ClassVar

from bentpipe import _native

#: Registered classes or functions, by identifier. The engine makes the controller of each connection with them.
_MAKERS: dict[str, Callable[[_native.Connection], "Controller"]] = {}


class Controller:
    """Congestion controller of one connection; by itself New Reno (RFC 5681).

    Derive a class and give it to `Scenario.set` or `Scenario.sweep` in place of a name:

    >>> import bentpipe
    >>> class Gentle(bentpipe.Controller):
    ...     def on_loss(self, loss):
    ...         self.ssthresh = self.cwnd = max(0.8 * loss.flight, 2 * self.smss)
    >>> Gentle.source = "the lines above"  # only because an example in a docstring has no file
    >>> scenario = bentpipe.parse(bentpipe.EXAMPLE).set("flow.file.traffic.controller", Gentle)
    >>> scenario.run(out=folder).value("flow.file.goodput").mean > 0
    True

    The transport owns retransmission and recovery and calls these methods, each of which may change `cwnd`, `ssthresh` and
    `pacing_rate`; they are read after each call. An exception ends the run and is raised by `Scenario.run`. A call takes some 2 µs,
    that of a built-in controller 20 ns.

    The hash of a run covers the source of the class and of those it derives from, but not what they call. Another process does not
    know the class: such a scenario cannot be pickled or planned as a campaign.
    """

    #: Text in place of the source, for a class whose source cannot be found. Results of equal texts are taken for the same.
    source: ClassVar[str | None] = None

    def __init__(self, connection: _native.Connection) -> None:
        #: Largest segment in bytes.
        self.smss = connection.smss
        #: Congestion window in bytes. The engine keeps it between a segment and the send buffer.
        self.cwnd: float = connection.initial_window
        #: Slow start threshold in bytes.
        self.ssthresh: float = connection.ssthresh
        #: Send buffer in bytes.
        self.max_window = connection.max_window
        #: Rate in bit/s at which segments are spaced, or ``None`` to send as ACKs arrive.
        self.pacing_rate: float | None = None
        self._counted = 0.0
        self._recovers = False
        self._before: tuple[float, float] = (self.cwnd, self.ssthresh)

    def on_established(self, now: float, rtt: float | None) -> None:
        """Handle the end of the handshake, before any data. Times are in seconds."""

    def on_sent(self, now: float, bytes: int, flight: int) -> None:
        """Handle new data that leaves; `flight` bytes were outstanding before. Called only if the class defines it."""

    def on_ack(self, ack: _native.Ack) -> None:
        """Handle an ACK with news, in recovery too, and grow the window."""
        self._recovers = self._recovers and ack.in_recovery
        if self._recovers or ack.acked == 0 or not ack.cwnd_limited:
            return
        if self.cwnd < self.ssthresh:
            self.cwnd = min(self.cwnd + min(ack.acked, self.smss), self.ssthresh, self.max_window)
            return
        # A segment for each window of acknowledged bytes (RFC 3465 2.1).
        self._counted += min(ack.acked, self.cwnd)
        if self._counted >= self.cwnd:
            self._counted = min(self._counted - self.cwnd, self.cwnd)
            self.cwnd = min(self.cwnd + self.smss, self.max_window)

    def on_loss(self, loss: _native.Loss) -> None:
        """Begin fast recovery: reduce the window."""
        self._remember()
        self._recovers, self._counted = True, 0.0
        self.ssthresh = max(loss.flight / 2, 2 * self.smss)
        self.cwnd = min(self.cwnd, self.ssthresh)

    def on_recovered(self, ack: _native.Ack) -> None:
        """End fast recovery."""
        self._recovers = False

    def on_timeout(self, loss: _native.Loss, first: bool) -> None:
        """Handle a retransmission timeout; `first` is false for repeated timeouts of one segment."""
        if first:
            self._remember()
            self._counted = 0.0
            self.ssthresh = max(loss.flight / 2, 2 * self.smss)
        self._recovers = False
        self.cwnd = self.smss

    def on_spurious(self) -> None:
        """Undo the last `on_loss` or `on_timeout`: nothing was lost (RFC 5682, RFC 3522)."""
        grown = self.cwnd
        self.cwnd, self.ssthresh = self._before
        self.cwnd = max(grown, self.cwnd)
        self._recovers = False

    def on_idle(self, restart_window: int) -> None:
        """Handle an idle time longer than the retransmission timeout (RFC 5681 4.1)."""
        self.cwnd = min(self.cwnd, restart_window)

    def _remember(self) -> None:
        self._before = (self.cwnd, self.ssthresh)


def register(identity: str, make: Callable[[_native.Connection], Controller], *, wants_sent: bool) -> None:
    """Register a maker of controllers. A later one of the same identity takes its place."""
    _MAKERS[identity] = make
    _native.register_controller(identity, lambda connection: _MAKERS[identity](connection), wants_sent)


def checked(controller: Controller) -> tuple[float, float, float]:
    """Return window, threshold and pacing rate (0 for none), in bytes and bit/s."""
    cwnd, ssthresh, rate = controller.cwnd, controller.ssthresh, controller.pacing_rate
    if math.isnan(cwnd) or math.isnan(ssthresh):
        raise ValueError(f"{type(controller).__qualname__}: cwnd is {cwnd} and ssthresh {ssthresh}: expected bytes")
    if rate is None:
        return cwnd, ssthresh, 0.0
    if not rate > 0:
        raise ValueError(f"{type(controller).__qualname__}: pacing_rate is {rate}: expected more than 0 bit/s, or None")
    return cwnd, ssthresh, rate
