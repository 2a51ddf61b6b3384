"""Figures of the test controller under load: answers beside a running job, and memory over many jobs with open streams.

Run with a release of the program, and Python 3.11 or later:

    python benches/serve.py rate PROGRAM
    python benches/serve.py soak PROGRAM [JOBS]

`rate` sends 200 requests a second for 20 s from eight users while a simulation runs. `soak` launches jobs, 1000 if it is not told
otherwise, with 50 streams of events open, and prints the server's memory.
"""

import http.client
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

PASSWORD = "granite-otter-97-lantern"
#: Users, each of whom has 50 requests a second.
USERS = 8
#: Requests a second of all users together, and for how long.
RATE = 200
SECONDS = 20
STREAMS = 50
PATHS = ["/jobs?limit=20", "/scenarios", "/me", "/jobs?limit=100", "/studies"]
SCENARIO = """title = "Load"
duration = "2 s"
[node.a]
[node.b]
[link.l]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "10 ms"
[flow.f]
from = "a"
to = "b"
traffic = { kind = "tcp" }
"""

Headers = dict[str, str]


class Server:
    """Server with a data folder of its own, and its users."""

    def __init__(self, program: str, folder: str) -> None:
        data = str(Path(folder) / "data")
        init = [program, "serve", "init", "--name", "boss", "--password-stdin", "--data", data]
        subprocess.run(init, input=PASSWORD + "\n", text=True, check=True, stdout=subprocess.DEVNULL)
        serve = [program, "serve", "--listen", "127.0.0.1:0", "--data", data, "--jobs", "2"]
        self.process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout
        self.host = self.process.stdout.readline().strip().rpartition("/")[2]
        self.boss = self.log_in("boss")
        self.users = [self.user(f"user{n}") for n in range(USERS)]
        # A user has 20 streams at most; those of level 2 see all jobs.
        self.watchers = [self.user(f"watcher{n}", 2) for n in range(1 + STREAMS // 20)]

    def call(self, method: str, path: str, headers: Headers, body: Any = None) -> tuple[int, Headers, bytes]:
        """Send a request, and return status, headers and body of the answer."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        content = {} if body is None else {"content-type": "application/json"}
        text = None if body is None else json.dumps(body)
        connection.request(method, "/api/v1" + path, text, headers | content)
        answer = connection.getresponse()
        result = (answer.status, dict(answer.getheaders()), answer.read())
        connection.close()
        return result

    def log_in(self, name: str) -> Headers:
        """Log in, and return the headers of the session."""
        same = {"sec-fetch-site": "same-origin"}
        _, headers, _ = self.call("POST", "/session", same, {"name": name, "password": PASSWORD})
        # The last one: that of the session.
        return same | {"cookie": headers["set-cookie"].partition(";")[0]}

    def user(self, name: str, level: int = 1) -> Headers:
        """Add a user, and return the headers of its token."""
        self.call("POST", "/users", self.boss, {"name": name, "password": PASSWORD, "level": level})
        token = {"name": "load", "scope": "run", "days": 1}
        _, _, body = self.call("POST", "/me/tokens", self.log_in(name), token)
        return {"authorization": "Bearer " + json.loads(body)["secret"]}

    def scenario(self, user: Headers, text: str) -> int:
        """Add a scenario, and return its number."""
        _, _, body = self.call("POST", "/scenarios", user, {"name": "Load", "text": text})
        number: int = json.loads(body)["id"]
        return number

    def count(self, state: str) -> int:
        """Return the number of jobs in a state."""
        _, _, body = self.call("GET", f"/jobs?limit=1000&state={state}", self.boss)
        return len(json.loads(body))

    def memory_mb(self) -> float:
        """Return the server's resident memory."""
        return self.status_mb("VmRSS")

    def peak_mb(self) -> float:
        """Return the most resident memory that the server had."""
        return self.status_mb("VmHWM")

    def status_mb(self, name: str) -> float:
        """Return a size of the server's process."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next((int(line.split()[1]) / 1000 for line in lines if line.startswith(name + ":")), 0.0)


def rate(server: Server) -> None:
    """Print the times of answers while a job runs."""
    time.sleep(1)
    print(f"idle: {server.memory_mb():.0f} MB")
    long = server.scenario(server.users[0], SCENARIO.replace("2 s", "80000 s"))
    status, _, _ = server.call("POST", "/jobs", server.users[0], {"scenario": long, "seeds": 100})
    assert status == 201
    time.sleep(2)
    taken: list[float] = []
    refused: list[int] = []

    def ask(user: Headers, first: float) -> None:
        connection = http.client.HTTPConnection(server.host, timeout=60)
        for n in range(RATE * SECONDS // USERS):
            time.sleep(max(0.0, first + n * USERS / RATE - time.monotonic()))
            begin = time.perf_counter()
            connection.request("GET", "/api/v1" + PATHS[n % len(PATHS)], headers=user)
            answer = connection.getresponse()
            answer.read()
            taken.append(time.perf_counter() - begin)
            if answer.status != 200:
                refused.append(answer.status)

    start = time.monotonic() + 0.1
    threads = [threading.Thread(target=ask, args=(user, start + n / RATE)) for n, user in enumerate(server.users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running, taken = server.count("running"), sorted(taken)
    shown = {"p50": taken[len(taken) // 2], "p99": taken[len(taken) * 99 // 100], "max": taken[-1]}
    times = ", ".join(f"{name} {value * 1e3:.1f} ms" for name, value in shown.items())
    per_second = len(taken) / (time.monotonic() - start)
    print(f"{len(taken)} requests, {per_second:.0f}/s, {len(refused)} refused, {running} running: {times}")
    print(f"after: {server.memory_mb():.0f} MB")


def soak(server: Server, jobs: int) -> None:
    """Print the server's memory over many jobs with open streams."""
    scenarios = [server.scenario(user, SCENARIO) for user in server.users]
    events = [0] * STREAMS
    is_over = threading.Event()

    def follow(n: int) -> None:
        path = f"/api/v1/jobs/{1 + n * jobs // STREAMS}/stream"
        while not is_over.is_set():
            try:
                connection = http.client.HTTPConnection(server.host, timeout=60)
                connection.request("GET", path, headers=server.watchers[n % len(server.watchers)])
                answer = connection.getresponse()
                while answer.status == 200 and (line := answer.readline()):
                    events[n] += line.startswith(b"event:")
            except OSError:
                pass
            time.sleep(5)

    for n in range(STREAMS):
        threading.Thread(target=follow, args=(n,), daemon=True).start()
    begin, launched, shown = time.monotonic(), 0, 0.0
    turns = itertools.cycle(zip(server.users, scenarios, strict=True))
    while launched < jobs or server.count("queued") + server.count("running"):
        if launched < jobs:
            user, scenario = next(turns)
            status, _, _ = server.call("POST", "/jobs", user, {"scenario": scenario})
            launched += status == 201
            # A user has a limit of unfinished jobs.
            time.sleep(0 if status == 201 else 0.2)
        else:
            time.sleep(2)
        if time.monotonic() - shown > 10:
            shown = time.monotonic()
            print(f"{shown - begin:.0f} s: {launched} launched, {server.memory_mb():.0f} MB", flush=True)
    open_streams = sum(1 for count in events if count)
    is_over.set()
    print(f"{server.count('done')} done after {time.monotonic() - begin:.0f} s, {server.memory_mb():.0f} MB")
    print(f"{sum(events)} events on {open_streams} streams")


def main() -> None:
    """Run the measurement that the first argument names."""
    what, program, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, folder)
        try:
            if what == "rate":
                rate(server)
            else:
                soak(server, int(more[0]) if more else 1000)
        finally:
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
