"""Figures of the test controller under attack: times of honest requests, and memory, while half of all requests are hostile.

Run with a release of the program, and Python 3.11 or later:

    python benches/attack.py PROGRAM [SECONDS [JOBS [ADDRESS]]]

For SECONDS (600 if it is not told otherwise) eight users send 100 requests a second, log in now and then, and launch JOBS jobs (1000).
Eight attackers send as many requests: four have accounts of level 1. Each has an address of its own, or all have ADDRESS (such as
127.0.9.1), as behind a translator of addresses. Times are from the instant at which a request was due, so that one which waits
for an earlier one counts as late. It prints the times of honest answers, log-ins and launches, the answers of each kind of hostile request, and
the server's most memory (as the kernel keeps it). The bars are 100 ms at the 99th percentile and 150 MB; the exit code is 1 beyond one, and when
honest requests are refused or jobs fail.
"""

import argparse
import collections
import functools
import http.client
import io
import itertools
import json
import multiprocessing
import random
import socket
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from multiprocessing.queues import Queue

from serve import PASSWORD, SCENARIO, Headers, Server

#: Requests a second of each half, and the number of senders of each.
RATE = 100
SENDERS = 8
#: Attackers with an account.
ACCOUNTS = 4
#: Most time of honest answers at the 99th percentile in seconds, and most memory of the server in MB.
MOST_S = 0.1
MOST_MB = 150
#: Requests of a user, of programs and of pages.
PATHS = [
    *("/api/v1" + path for path in ("/jobs?limit=20", "/scenarios", "/me", "/jobs?limit=100", "/studies", "/me/usage", "/files")),
    *("/jobs", "/account", "/files"),
]
#: Connections of an attacker that wait for answers at a time, and those without a request that each of them keeps.
WORKERS = 6
IDLE = 10
#: Seconds between two log-ins of a user.
LOG_IN_S = 20.0

#: Scenarios that cost much to be checked, or name files of the server.
HEAVY = SCENARIO.replace('"2 s"', '"100000 s"') + "".join(
    f'[[event]]\nat = "1 s"\nevery = "1 ms"\nfor = "{n + 1} s"\nset = {{ "link.l.rate" = "1 Mbit/s" }}\n' for n in range(90)
)
SWEPT = SCENARIO + "[sweep]\n" + "".join(f'"link.l.delay.{n}" = "1 ms to 100000 ms by 1 ms"\n' for n in range(9))
FILES = [
    SCENARIO + f'[[event]]\nat = "0.1 s"\n[sweep]\n"event.0.{spelling}" = ["/etc/shadow", "x"]\n'
    for spelling in ("file", "\\tfile", "\\u00a0file", 'fi\\"le')
]

Hostile = Callable[[], int]
Answers = dict[tuple[str, int], int]


class Sender:
    """Client at an address of its own, on one connection while the server keeps it."""

    def __init__(self, host: str, address: str, headers: Headers) -> None:
        self.host, self.address, self.headers = host, address, headers
        self.connection: http.client.HTTPConnection | None = None

    def send(self, method: str, path: str, body: bytes | None = None, more: Headers | None = None) -> int:
        """Send a request, read the answer, and return its status; 0 if there is none.

        A connection that the server has closed since the last request is made again.
        """
        for _ in range(2):
            is_new = self.connection is None
            connection = self.connection or http.client.HTTPConnection(
                self.host, timeout=60, source_address=(self.address, 0)
            )
            self.connection = connection
            try:
                connection.request(method, path, body, self.headers | (more or {}))
                answer = connection.getresponse()
                answer.read()
                self.keep_device(answer)
                return answer.status
            except (OSError, http.client.HTTPException):
                connection.close()
                self.connection = None
                if is_new:
                    break
        return 0

    def keep_device(self, answer: http.client.HTTPResponse) -> None:
        """Keep the cookie by which a browser is known, as browsers do."""
        cookies = [line.partition(";")[0] for line in answer.headers.get_all("set-cookie", [])]
        self.headers = self.headers | {"cookie": cookie for cookie in cookies if cookie.startswith("bentpipe-device=")}

    def ask(self, path: str, body: object) -> int:
        """Send JSON to an operation."""
        return self.send("POST", "/api/v1" + path, json.dumps(body).encode(), {"content-type": "application/json"})


@functools.cache
def bomb() -> bytes:
    """Return an archive whose files are large once they are unpacked."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("job-1/bentpipe-job.json", b"[" * 5_000_000)
        archive.writestr("job-1/../../etc/x", b"\0" * 20_000_000)
    return out.getvalue()


class Attacker:
    """Sender of hostile requests, each kind in turn."""

    def __init__(self, host: str, address: str, number: int, user: Headers | None) -> None:
        self.sender = Sender(host, address, user or {})
        self.host, self.address, self.random = host, address, random.Random(number)
        self.idle: list[socket.socket] = []
        self.archive = bomb()
        self.kinds: list[tuple[str, Hostile]] = [
            ("unknown user", lambda: self.log_in("nobody")),
            ("wrong password", lambda: self.log_in(f"user{number}")),
            ("idle connection", self.keep_idle),
            ("half a request", lambda: self.raw(b"POST /api/v1/session HTTP/1.1\r\nhost: " + self.host.encode() + b"\r\ncontent-length: 9\r\n\r\n{")),
            ("no HTTP", lambda: self.raw(self.random.randbytes(200))),
            ("long head", lambda: self.raw(b"GET / HTTP/1.1\r\nx: " + b"y" * 60_000)),
            ("path", lambda: self.sender.send("GET", "/api/v1/../../etc/shadow%00")),
            ("method", lambda: self.sender.send("BREW", "/api/v1/jobs")),
            ("nested JSON", lambda: self.sender.send("POST", "/api/v1/check", b'{"text":' + b"[" * 300_000)),
            ("long body", lambda: self.sender.send("POST", "/api/v1/check", b" " * 2_000_000)),
        ]
        if user:
            self.kinds += [
                ("costly check", lambda: self.sender.ask("/check", {"text": HEAVY})),
                ("many points", lambda: self.sender.ask("/check", {"text": SWEPT})),
                ("files of the server", lambda: self.sender.ask("/check", {"text": self.random.choice(FILES)})),
                ("archive", lambda: self.sender.send("POST", "/api/v1/jobs/import", self.archive)),
                ("upload", lambda: self.sender.send("POST", "/api/v1/files?name=../x", b"x" * 100_000)),
                ("stream", self.open_stream),
                ("rights", lambda: self.sender.ask("/users", {"name": "evil", "password": PASSWORD, "level": 3})),
                ("settings", lambda: self.sender.ask("/jobs", {"scenario": 1, "seeds": 1 << 62, "duration": "\0"})),
            ]
        self.turns = itertools.cycle(self.kinds)

    def log_in(self, name: str) -> int:
        """Guess a password."""
        body = json.dumps({"name": name, "password": f"guess-{self.random.random()}"}).encode()
        more = {"content-type": "application/json", "sec-fetch-site": "same-origin"}
        return self.sender.send("POST", "/api/v1/session", body, more)

    def connect(self) -> socket.socket:
        """Open a connection."""
        host, port = self.host.split(":")
        return socket.create_connection((host, int(port)), 10, (self.address, 0))

    def raw(self, data: bytes) -> int:
        """Send bytes that are no request, and wait for nothing."""
        try:
            with self.connect() as connection:
                connection.sendall(data)
            return 1
        except OSError:
            return 0

    def keep(self, data: bytes) -> int:
        """Open a connection, and keep it with earlier ones."""
        try:
            connection = self.connect()
            connection.sendall(data)
        except OSError:
            return 0
        self.idle.append(connection)
        if len(self.idle) > IDLE:
            self.idle.pop(0).close()
        return 1

    def keep_idle(self) -> int:
        """Keep a connection without a request."""
        return self.keep(b"")

    def open_stream(self) -> int:
        """Open a stream of events and read nothing of it."""
        head = "".join(f"{name}: {value}\r\n" for name, value in self.sender.headers.items())
        return self.keep(f"GET /api/v1/jobs/1/stream HTTP/1.1\r\nhost: {self.host}\r\n{head}\r\n".encode())

    def attack(self) -> tuple[str, int]:
        """Send the next hostile request, and return its kind and status."""
        name, send = next(self.turns)
        return name, send()


class Times:
    """Times of requests in seconds, and the answers that were not expected."""

    def __init__(self, name: str, expected: int) -> None:
        self.name, self.expected = name, expected
        self.taken: list[float] = []
        self.bad: collections.Counter[int] = collections.Counter()

    def note(self, due: float, status: int) -> None:
        """Note an answer to a request that was due at an instant."""
        self.taken.append(time.monotonic() - due)
        if status != self.expected:
            self.bad[status] += 1

    def quantile(self, share: float) -> float:
        """Return the time within which a share of the answers came."""
        times = sorted(self.taken)
        return times[min(len(times) - 1, int(len(times) * share))] if times else 0.0

    def show(self, seconds: float) -> None:
        """Print count, rate and quantiles."""
        shown = ", ".join(f"{name} {self.quantile(share) * 1e3:.1f} ms" for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)))
        print(f"{self.name}: {len(self.taken)}, {len(self.taken) / seconds:.1f}/s, {shown}, unexpected: {dict(self.bad) or 'none'}")


def paced(until: float, first: float, period: float, work: Callable[[float], object]) -> None:
    """Do work each period, with the instant at which it was due. What comes late is made up for."""
    due = first
    while due < until:
        time.sleep(max(0.0, due - time.monotonic()))
        work(due)
        due += period


class Honest:
    """User who asks, logs in and launches jobs."""

    def __init__(self, server: Server, n: int, address: str) -> None:
        self.server, self.n = server, n
        self.scenario = server.scenario(server.users[n], SCENARIO)
        # As a browser with several connections.
        self.asker, self.launcher = (Sender(server.host, address, server.users[n]) for _ in range(2))
        self.browser = Sender(server.host, address, {"sec-fetch-site": "same-origin"})
        self.paths = itertools.cycle(PATHS)
        # The first log-in in a browser is before the attack.
        assert self.log_in() == 200

    def ask(self) -> int:
        """Ask for the next path."""
        return self.asker.send("GET", next(self.paths))

    def launch(self) -> int:
        """Launch a job."""
        return self.launcher.ask("/jobs", {"scenario": self.scenario})

    def log_in(self) -> int:
        """Log in."""
        return self.browser.ask("/session", {"name": f"user{self.n}", "password": PASSWORD})


def thread(work: Callable[[float], object], first: float, until: float, period: float) -> threading.Thread:
    """Start a thread that does work each period."""
    started = threading.Thread(target=paced, args=(until, first, period, work), daemon=True)
    started.start()
    return started


def attack(host: str, address: str | None, users: list[Headers | None], span: tuple[float, float], found: "Queue[Answers]") -> None:
    """Attack a server from one instant to another, and put the answers into a queue."""
    start, until = span
    answers: collections.Counter[tuple[str, int]] = collections.Counter()
    threads = []
    for n, user in enumerate(users):
        for worker in range(WORKERS):
            attacker = Attacker(host, address or f"127.0.9.{n + 1}", n, user)
            # Each begins with another kind.
            for _ in range(worker * len(attacker.kinds) // WORKERS):
                next(attacker.turns)

            def work(_: float, attacker: Attacker = attacker) -> None:
                answers.update([attacker.attack()])

            threads.append(thread(work, start + (n + worker * SENDERS) / RATE, until, SENDERS * WORKERS / RATE))
    for one in threads:
        one.join(max(0.0, until - time.monotonic()))
    found.put(dict(answers))


def measure(server: Server, seconds: float, jobs: int, address: str | None) -> bool:
    """Attack the server, print what honest users saw, and return true if it is within the bars."""
    users = [Honest(server, n, address or f"127.0.8.{n + 1}") for n in range(SENDERS)]
    evil = [server.user(f"evil{n}") if n < ACCOUNTS else None for n in range(SENDERS)]
    asked, logged_in, launched = Times("honest requests", 200), Times("log-ins", 200), Times("launches", 201)
    start = time.monotonic() + 5
    until = start + seconds
    # A process of its own, so that the times are not those of this interpreter's lock.
    found: "Queue[Answers]" = multiprocessing.Queue()
    attackers = multiprocessing.Process(target=attack, args=(server.host, address, evil, (start, until), found), daemon=True)
    attackers.start()

    def send(times: Times, request: Callable[[], int], period: float, first: float, share: float = 1.0) -> None:
        thread(lambda due: times.note(due, request()), start + first, start + share * seconds, period)

    for n, user in enumerate(users):
        send(asked, user.ask, SENDERS / RATE, n / RATE)
        send(logged_in, user.log_in, LOG_IN_S, (n + 0.5) * LOG_IN_S / SENDERS)
        # The last fifth of the time is for jobs that wait.
        send(launched, user.launch, SENDERS * seconds * 0.8 / jobs, (n + 0.5) * seconds * 0.8 / jobs, 0.8)
    while time.monotonic() < until and server.process.poll() is None:
        time.sleep(1)
    if not asked.taken or server.process.poll() is not None:
        print("the server is gone")
        return False
    most, answers = server.peak_mb(), found.get(timeout=90)
    for times in (asked, logged_in, launched):
        times.show(seconds)
    done, failed = server.count("done"), server.count("failed")
    print(f"jobs: {done} done, {failed} failed, {server.count('queued') + server.count('running')} left; most memory {most:.0f} MB")
    print(f"hostile requests: {sum(answers.values())}, {sum(answers.values()) / seconds:.0f}/s:")
    for name in sorted({name for name, _ in answers}):
        print(f"  {name}: " + ", ".join(f"{count} x {status}" for (of, status), count in sorted(answers.items()) if of == name))
    return asked.quantile(0.99) <= MOST_S and most <= MOST_MB and failed == 0 and not asked.bad and not logged_in.bad


def main() -> int:
    """Run the attack."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", metavar="PROGRAM", help="a release of bentpipe")
    parser.add_argument("seconds", metavar="SECONDS", nargs="?", type=float, default=600.0)
    parser.add_argument("jobs", metavar="JOBS", nargs="?", type=int, default=1000)
    parser.add_argument("address", metavar="ADDRESS", nargs="?", help="address of all clients [default: one each]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(given.program, folder)
        try:
            return 0 if measure(server, given.seconds, given.jobs, given.address) else 1
        finally:
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    sys.exit(main())
