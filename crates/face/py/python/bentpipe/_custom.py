"""Elements and traffic sources in Python, and the values that name classes in a scenario."""

import hashlib
import inspect
import random
import textwrap
from collections.abc import Callable
from typing import Any, ClassVar

from bentpipe import _controllers, _native
from bentpipe._controllers import Controller

#: Most lists and tables within each other.
_MAX_DEPTH = 16

#: Registered classes, by identifier. The engine makes objects with them.
_ELEMENTS: dict[str, Callable[[_native.Ahead], "Element"]] = {}
_SOURCES: dict[str, Callable[[_native.Path], "Source"]] = {}


class Element:
    """Element in front of a link's queue; by itself it passes on every packet.

    Derive a class and give it to `Scenario.set` or `Scenario.sweep` for the key ``custom`` of a link or of one of its directions:

    >>> import bentpipe
    >>> class Lossy(bentpipe.Element):
    ...     def on_packet(self, now, packet):
    ...         if self.random.random() < 0.01:
    ...             self.drop(packet)
    ...         else:
    ...             self.send(packet)
    >>> Lossy.source = "the lines above"  # only because an example in a docstring has no file
    >>> scenario = bentpipe.parse(bentpipe.EXAMPLE).set("link.satellite.forward.custom", Lossy)
    >>> scenario.run(out=folder).value("link.satellite.forward.custom-dropped").mean > 0
    True

    The engine calls `on_start`, `on_packet` and `on_wake`. A packet is passed on by `send`, at once or at a later wake-up; it is changed
    by ``packet.mark()`` and ``packet.with_bytes()``, and sent twice as ``packet.copy()``. An exception ends the run and is raised by
    `Scenario.run`. A call takes some 2 µs.

    The hash of a run covers the source of the class and of those it derives from, but not what they call. A result must depend on
    nothing else: take random numbers from `random`, and the time from `now`. Another process does not know the class: such a scenario
    cannot be pickled or planned as a campaign.
    """

    #: Text in place of the source, for a class whose source cannot be found. Results of equal texts are taken for the same.
    source: ClassVar[str | None] = None

    def __init__(self, link: _native.Ahead) -> None:
        #: Line rate of the link in bit/s.
        self.rate = link.rate
        #: Random numbers of this element, seeded before `on_start`.
        self.random = random.Random(0)
        #: Time of the next wake-up in seconds, or ``None``. It is ``None`` again when `on_wake` is called.
        self.wake_at: float | None = None
        #: Number that is recorded as the series ``value``, or ``None``.
        self.value: float | None = None
        self._sent: list[Any] = []
        self._dropped = 0

    def on_start(self) -> None:
        """Handle the start of the run."""

    def on_packet(self, now: float, packet: _native.Packet) -> None:
        """Handle a packet. Times are in seconds."""
        self.send(packet)

    def on_wake(self, now: float) -> None:
        """Handle the time `wake_at`."""

    def send(self, packet: _native.Packet) -> None:
        """Pass on a packet, at the end of this call. Each object is sent once."""
        self._sent.append(packet)

    def drop(self, packet: _native.Packet) -> None:
        """Count a packet as dropped."""
        self._dropped += 1


class Source:
    """Source of UDP datagrams.

    Derive a class and give it to `Scenario.set` or `Scenario.sweep` as a flow's traffic:

    >>> import bentpipe
    >>> class Bursts(bentpipe.Source):
    ...     def on_wake(self, now):
    ...         for _ in range(self.random.randint(1, 5)):
    ...             self.send(800)
    ...         self.wake_at = now + self.random.expovariate(10)
    >>> Bursts.source = "the lines above"  # only because an example in a docstring has no file
    >>> scenario = bentpipe.parse(bentpipe.EXAMPLE).set("flow.file.traffic", Bursts)
    >>> scenario.run(out=folder).value("flow.file.goodput").mean > 0
    True

    The receiver measures delay, jitter and loss as of ``traffic = "udp"``. The flow's ``start``, ``stop`` and ``count`` apply. Exceptions,
    cost, hashes and other processes: as of `Element`.
    """

    #: Text in place of the source, for a class whose source cannot be found. Results of equal texts are taken for the same.
    source: ClassVar[str | None] = None

    def __init__(self, path: _native.Path) -> None:
        #: Longest payload in bytes that passes without fragmentation.
        self.max_payload = path.max_payload
        #: Least payload in bytes: each begins with its number.
        self.min_payload = path.min_payload
        #: Random numbers of this source, seeded before `on_start`.
        self.random = random.Random(0)
        #: Time of the next wake-up in seconds, or ``None`` for the end. It is ``None`` again when `on_wake` is called.
        self.wake_at: float | None = None
        self._sent: list[Any] = []

    def on_start(self, now: float) -> None:
        """Handle the start of the flow; by itself as a wake-up. Times are in seconds."""
        self.on_wake(now)

    def on_wake(self, now: float) -> None:
        """Handle the time `wake_at`: send datagrams, and set the next time."""
        raise NotImplementedError(f"{type(self).__qualname__}.on_wake: expected a method that sends datagrams")

    def send(self, payload: int) -> None:
        """Send a datagram of a payload in bytes, at the end of this call."""
        self._sent.append(payload)


def assigned(value: object, depth: int = _MAX_DEPTH) -> object:
    """Return the value to assign to a key: classes become tables with their identifier, also in lists."""
    if depth == 0:
        # The engine refuses it, with the reason.
        return value
    if isinstance(value, type):
        return _table(value)
    if isinstance(value, dict):
        return {key: assigned(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [assigned(item, depth - 1) for item in value]
    return value


def _table(kind: type) -> object:
    if issubclass(kind, Controller):
        identity = _identity(kind, Controller)
        _controllers.register(identity, kind, wants_sent=kind.on_sent is not Controller.on_sent)
        return {"name": "custom", "id": identity}
    if issubclass(kind, Element):
        identity = _identity(kind, Element)
        _ELEMENTS[identity] = kind
        _native.register_element(identity, lambda link: _ELEMENTS[identity](link))
        return {"id": identity}
    if issubclass(kind, Source):
        identity = _identity(kind, Source)
        _SOURCES[identity] = kind
        _native.register_source(identity, lambda path: _SOURCES[identity](path))
        return {"kind": "custom", "id": identity}
    return kind


def _identity(kind: type, base: type) -> str:
    """Return a class's name with the hash of its source and of the sources of those it derives from."""
    digest = hashlib.sha256()
    for one in kind.__mro__:
        if one in (base, object):
            continue
        text: Any = one.__dict__.get("source")
        if text is None:
            try:
                text = textwrap.dedent(inspect.getsource(one))
            except (OSError, TypeError) as error:
                raise ValueError(
                    f"the source of {one.__qualname__} cannot be found, and results are told apart by it: "
                    "define the class in a file or a notebook, or give it a text as `source`"
                ) from error
        digest.update(text.encode())
    return f"{kind.__qualname__.rpartition('.')[2]}@{digest.hexdigest()[:12]}"


def left(it: Any) -> tuple[list[Any], int, float | None, float | None]:
    """Return what a call left: the sent, the number of dropped packets, the wake-up and the value."""
    sent, it._sent = it._sent, []
    if isinstance(it, Source):
        return sent, 0, it.wake_at, None
    dropped, it._dropped = it._dropped, 0
    return sent, dropped, it.wake_at, it.value
