"""Elements and traffic sources in Python."""

import pickle
import struct
import threading
from collections import deque
from pathlib import Path
from typing import Any

import polars
import pytest

import bentpipe

UDP = bentpipe.parse(
    bentpipe.EXAMPLE.replace(
        'traffic = "tcp"',
        """traffic = { kind = "udp", pattern = { kind = "constant", interval = "5 ms" }, payload = "500 B", spread = false }""",
    )
)
TRAFFIC, ELEMENT = "flow.file.traffic", "link.satellite.forward.custom"


class Constant(bentpipe.Source):
    """Datagrams of 500 B every 5 ms, as `UDP` has them."""

    def on_start(self, now: float) -> None:
        self.sent = 0
        self.on_wake(now)

    def on_wake(self, now: float) -> None:
        self.send(500)
        self.sent += 1
        self.wake_at = self.sent * 0.005


class Local(bentpipe.Source):
    """What is stored for the thread in one call is there in the next: the interpreter knows the thread of the run."""

    here = threading.local()
    found: list[int] = []

    def on_wake(self, now: float) -> None:
        Local.here.calls = getattr(Local.here, "calls", 0) + 1
        Local.found.append(Local.here.calls)
        self.wake_at = now + 0.1


class Random(bentpipe.Source):
    """Datagrams of random lengths at random times."""

    def on_wake(self, now: float) -> None:
        self.send(self.random.randint(self.min_payload, self.max_payload))
        self.wake_at = now + self.random.expovariate(20)


class Bucket(bentpipe.Element):
    """Token bucket of 400 kbit/s, 3000 B and a queue of 20,000 B, as Linux's tbf."""

    bps, depth, limit = 400_000, 3000, 20_000

    def on_start(self) -> None:
        self.tokens, self.at = float(self.depth), 0.0
        self.waiting: deque[Any] = deque()
        self.value = 0.0

    def on_packet(self, now: float, packet: Any) -> None:
        if sum(map(len, self.waiting)) + len(packet) > self.limit:
            self.drop(packet)
        else:
            self.waiting.append(packet)
            self.serve(now)

    def on_wake(self, now: float) -> None:
        self.serve(now)

    def serve(self, now: float) -> None:
        self.tokens = min(self.depth, self.tokens + (now - self.at) * self.bps / 8)
        self.at = now
        while self.waiting and self.tokens > len(self.waiting[0]) - 1e-3:
            self.tokens -= len(self.waiting[0])
            self.send(self.waiting.popleft())
        missing = len(self.waiting[0]) - self.tokens if self.waiting else 0.0
        self.wake_at = now + max(1e-9, missing * 8 / self.bps) if self.waiting else None
        self.value = float(sum(map(len, self.waiting)))


class Marking(bentpipe.Element):
    """Reads every packet, rewrites its hop limit and sends it twice."""

    def on_packet(self, now: float, packet: Any) -> None:
        data = bytearray(packet.bytes)
        assert (packet.protocol, packet.dscp, len(packet)) == (17, 0, 528) and len(data) == 528
        assert packet.source[1] == packet.destination[1] == 1024 and packet.created == now
        assert packet.is_ecn_capable is packet.mark() is False
        # One hop less, in the checksum too (RFC 1624): the word of hop limit and protocol falls by 256.
        data[8] -= 1
        (checksum,) = struct.unpack_from(">H", data, 10)
        total = checksum + 0x100
        struct.pack_into(">H", data, 10, (total & 0xFFFF) + (total >> 16))
        self.send(packet.with_bytes(bytes(data)))
        self.send(packet.copy())
        self.value = 1.0


def test_a_run_has_one_thread_of_the_interpreter(tmp_path: Path) -> None:
    UDP.set(TRAFFIC, Local).run(out=tmp_path)
    assert len(Local.found) > 10
    assert Local.found == list(range(1, len(Local.found) + 1))


def test_a_source_in_python_is_the_built_in_one(tmp_path: Path) -> None:
    built_in, mine = (it.run(out=tmp_path) for it in (UDP, UDP.set(TRAFFIC, Constant)))
    assert built_in.fingerprints == mine.fingerprints
    for measure in ("goodput", "loss", "delay-p95", "jitter"):
        name = f"flow.file.{measure}"
        assert built_in.value(name).mean == mine.value(name).mean, name


def test_an_element_by_itself_passes_on_every_packet(tmp_path: Path) -> None:
    kind = type("Plain", (bentpipe.Element,), {"source": "nothing of its own"})
    plain, mine = (it.run(out=tmp_path) for it in (UDP, UDP.set(ELEMENT, kind)))
    for measure in ("goodput", "loss", "delay-mean"):
        name = f"flow.file.{measure}"
        assert plain.value(name).mean == mine.value(name).mean, name
    assert mine.value("link.satellite.forward.custom-dropped").mean == 0


def test_a_token_bucket_in_python_is_the_shaper(tmp_path: Path) -> None:
    shaper = {"rate": "400 kbit/s", "burst": "3000 B", "limit": "20 kB"}
    built_in = UDP.set("link.satellite.forward.shaper", shaper).run(out=tmp_path)
    mine = UDP.set(ELEMENT, Bucket).run(out=tmp_path)
    dropped = mine.value("link.satellite.forward.custom-dropped").mean
    assert dropped == built_in.value("link.satellite.forward.shaper-dropped").mean > 1000
    for measure in ("goodput", "loss", "delay-mean", "delay-p95"):
        name = f"flow.file.{measure}"
        assert mine.value(name).mean == pytest.approx(built_in.value(name).mean, rel=1e-6), name
    queue = polars.DataFrame(mine.series("link.satellite.forward.custom.value"))
    assert 19_000 < queue.to_series(queue.width - 1).max() <= 20_000  # type: ignore[operator]


def test_packets_are_read_changed_and_copied(tmp_path: Path) -> None:
    results = UDP.set("duration", "2 s").set(ELEMENT, Marking).run(out=tmp_path)
    series = polars.DataFrame(results.series("flow.file.receiver.*", constant=True))
    last = {name: series[name][-1] for name in series.columns if name.startswith("flow")}
    by = {name.split(" ")[0].rpartition(".")[2]: value for name, value in last.items()}
    # The last one may be on its way without its copy.
    assert 0 <= by["packets"] - 2 * by["duplicates"] <= 1 and by["packets"] > 300 and by["dropped-bad-checksum"] == 0


def test_random_numbers_follow_the_seed(tmp_path: Path) -> None:
    mine = UDP.set(TRAFFIC, Random)
    first, again = (mine.run(seeds=3, out=tmp_path / name).fingerprints for name in ("a", "b"))
    assert first == again and len(set(first)) == 3
    copies = mine.set("flow.file.count", 3).run(out=tmp_path)
    measures = {row["measure"] for row in copies.measures.rows()}
    assert {f"flow.file.{number}.loss" for number in (1, 2, 3)} <= measures, measures


def test_a_switch_and_a_stop_end_it(tmp_path: Path) -> None:
    stopped = UDP.set(TRAFFIC, Constant).set("flow.file.stop", "1 s").run(out=tmp_path)
    sent = polars.DataFrame(stopped.series("flow.file.sender.sent"))
    assert sent.to_series(sent.width - 1).max() == 200
    assert stopped.fingerprints == UDP.set("flow.file.stop", "1 s").run(out=tmp_path).fingerprints


@pytest.mark.parametrize(
    ("base", "body", "error", "words"),
    [
        (bentpipe.Source, "def on_wake(self, now): raise ArithmeticError('the first')", ArithmeticError, "the first"),
        (bentpipe.Source, "def on_wake(self, now): self.send(3)", ValueError, "send.3.: expected 4 to 1472 bytes"),
        (bentpipe.Source, "def on_wake(self, now): self.send('x')", TypeError, "int"),
        (bentpipe.Source, "def on_wake(self, now): self.wake_at = now", ValueError, "wake_at is 0.0: expected None, or"),
        (bentpipe.Source, "def on_wake(self, now): self.wake_at = float('nan')", ValueError, "wake_at is nan"),
        (bentpipe.Source, "pass", NotImplementedError, "on_wake: expected a method that sends"),
        (bentpipe.Source, "def __init__(self, path): raise LookupError('none')", LookupError, "none"),
        (bentpipe.Element, "def on_packet(self, now, packet): self.send(packet); self.send(packet)", RuntimeError, "sent before"),
        (bentpipe.Element, "def on_packet(self, now, packet): self.send(b'x')", TypeError, "Packet"),
        (bentpipe.Element, "def on_packet(self, now, packet): self.send(packet.with_bytes(b''))", ValueError, "0 bytes: expected"),
        (bentpipe.Element, "def on_start(self): self.wake_at = -1.0", ValueError, "wake_at is -1.0"),
        (bentpipe.Element, "def __init__(self, link): raise LookupError('none')", LookupError, "none"),
    ],
)
def test_mistakes_end_the_run_and_come_out(
    base: type, body: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    space: dict[str, Any] = {"base": base, "text": body}
    exec(f"class Mistaken(base):\n    source = text\n    {body}\n", space)
    key = TRAFFIC if base is bentpipe.Source else ELEMENT
    with pytest.raises(error, match=words):
        UDP.set(key, space["Mistaken"]).run(out=tmp_path)


def test_packets_of_any_bytes_do_no_harm(tmp_path: Path) -> None:
    body = "def on_packet(self, now, packet): self.send(packet.with_bytes(self.random.randbytes(self.random.randint(1, 3000))))"
    space: dict[str, Any] = {"base": bentpipe.Element, "text": body}
    exec(f"class Garbage(base):\n    source = text\n    {body}\n", space)
    results = UDP.set("duration", "3 s").set(ELEMENT, space["Garbage"]).run(out=tmp_path, seeds=3)
    assert results.value("flow.file.goodput").mean == 0


@pytest.mark.parametrize(("key", "kind"), [(TRAFFIC, Constant), (ELEMENT, Bucket)])
def test_what_cannot_travel_is_refused(key: str, kind: type, tmp_path: Path) -> None:
    mine = UDP.set(key, kind)
    with pytest.raises(pickle.PicklingError, match=f"{kind.__name__}@[0-9a-f]{{12}}"):
        pickle.dumps(mine)
    with pytest.raises(ValueError, match="other processes run a campaign"):
        bentpipe.campaign.plan(mine, tmp_path / "campaign")
    elsewhere = {"id": "Elsewhere@1"} | ({"kind": "custom"} if key == TRAFFIC else {})
    with pytest.raises(bentpipe.ScenarioError, match='"Elsewhere@1" is registered in this process'):
        UDP.set(key, elsewhere).check()
    assert mine.hash != UDP.hash
    changed = type(kind.__name__, (kind,), {"source": "changed"})
    assert UDP.set(key, changed).hash != mine.hash


def test_describe_states_the_cost() -> None:
    text = bentpipe.describe("custom")
    assert text.count("µs") == 4 and "class in Python" in text
