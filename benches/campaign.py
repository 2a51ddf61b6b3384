"""Figures of campaigns from Python: efficiency of two workers of Dask, and memory of driver and scheduler.

Run with the package installed, and distributed:

    python benches/campaign.py efficiency [RUNS]
    python benches/campaign.py memory [RUNS]

The efficiency is taken in rounds that alternate, by processor time, which other work on the machine leaves alone, and by time.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import bentpipe
from bentpipe import campaign as campaigns

#: Rounds of which the median is taken.
ROUNDS = 3

PART = "import sys, bentpipe; bentpipe.campaign.open(sys.argv[1]).part(int(sys.argv[2]), int(sys.argv[3]))"


def planned(folder: Path, name: str, duration: str, runs: int) -> campaigns.Campaign:
    """Plan a campaign of one point for each delay, with one seed."""
    scenario = bentpipe.parse(bentpipe.EXAMPLE).set("duration", duration)
    swept = scenario.sweep({"link.satellite.delay": f"100 us to {100 * runs} us by 100 us"})
    return campaigns.plan(swept, folder / name, seeds=1)


def spent() -> float:
    """Return the processor time of this process and of its children, in seconds."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(it.ru_utime + it.ru_stime for it in both)


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    return 0.0


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and of its children, those that have ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    children = [it.read_text().split() for it in Path(f"/proc/{pid}/task").glob("*/children")]
    return own + sum(cpu_s(int(child)) for of_thread in children for child in of_thread)


class Cluster:
    """Scheduler and two workers of Dask, each a process."""

    def __init__(self, folder: Path) -> None:
        where = folder / "scheduler.json"

        def start(kind: str, *words: str) -> "subprocess.Popen[bytes]":
            command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--scheduler-file", str(where), "--no-dashboard"]
            return subprocess.Popen([*command, "--host", "127.0.0.1", *words], stderr=subprocess.DEVNULL)

        self.scheduler = start("scheduler", "--port", "0")
        self.workers = [start("worker", "--nthreads", "1", "--no-nanny") for _ in range(2)]
        from distributed import Client

        self.client: Any = Client(scheduler_file=str(where))
        self.client.wait_for_workers(2)

    def cpu_s(self) -> float:
        return sum(cpu_s(it.pid) for it in [self.scheduler, *self.workers]) + time.process_time()

    def close(self) -> None:
        self.client.close()
        for process in [self.scheduler, *self.workers]:
            process.terminate()
            process.wait()


def bare(planned: campaigns.Campaign, runs: int) -> tuple[float, float]:
    """Run a half in each of two processes, and return the time and the processor time."""
    began, before = time.monotonic(), spent()
    halves = [(0, runs // 2), (runs // 2, runs)]
    words = [sys.executable, "-c", PART, str(planned.path)]
    parts = [subprocess.Popen([*words, str(first), str(end)]) for first, end in halves]
    assert all(part.wait() == 0 for part in parts)
    return time.monotonic() - began, spent() - before


def driven(planned: campaigns.Campaign, runs: int, cluster: Cluster) -> tuple[float, float]:
    """Run all on the workers, and return the time and the processor time of workers, scheduler and driver."""
    began, before = time.monotonic(), cluster.cpu_s()
    assert planned.run(cluster.client).finished == runs
    return time.monotonic() - began, cluster.cpu_s() - before


def efficiency(folder: Path, runs: int) -> dict[str, Any]:
    """Compare two workers of Dask with two processes that each run a half."""
    probes = []
    for count in (2, 12):
        probe = planned(folder, f"probe-{count}", "200 s", count)
        before = spent()
        subprocess.run([sys.executable, "-c", PART, str(probe.path), "0", str(count)], check=True)
        probes.append(spent() - before)
    # The start of the process is in both.
    each = (probes[1] - probes[0]) / 10
    duration = f"{round(200 * 0.1 / each, 1)} s"
    cluster = Cluster(folder)
    began, before = time.monotonic(), cluster.cpu_s()
    time.sleep(20)
    idle = (cluster.cpu_s() - before) / (time.monotonic() - began)
    rounds = []
    for number in range(ROUNDS):
        alone = bare(planned(folder, f"bare-{number}", duration, runs), runs)
        campaign = planned(folder, f"driven-{number}", duration, runs)
        with_dask = driven(campaign, runs, cluster)
        tasks = len(list((campaign.path / "parts").iterdir()))
        # What Dask does while it waits grows with the time, which other work on the machine stretches.
        for_tasks = with_dask[1] - idle * with_dask[0] - alone[1]
        on_idle_machine = alone[1] + for_tasks + idle * alone[1] / 2
        rounds.append({
            "run_cpu_s": round(alone[1] / runs, 4),
            "wall_efficiency": round(alone[0] / with_dask[0], 4),
            "cpu_efficiency": round(alone[1] / with_dask[1], 4),
            "cpu_efficiency_idle_machine": round(alone[1] / on_idle_machine, 4),
            "ms_a_task": round(for_tasks / tasks * 1e3, 1),
            "parts": tasks,
        })
        print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    cluster.close()
    middle = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
    return {"runs": runs, "rounds": ROUNDS, "idle_cpu": round(idle, 4), **middle}


def memory(folder: Path, runs: int) -> dict[str, Any]:
    """Follow the memory of driver and scheduler over a campaign of short runs."""
    it, cluster = planned(folder, "short", "1 ms", runs), Cluster(folder)
    samples: list[tuple[float, float, float]] = []
    share, over = [0.0], threading.Event()

    def follow() -> None:
        while not over.wait(1):
            samples.append((share[0], rss_mb(os.getpid()), rss_mb(cluster.scheduler.pid)))

    thread = threading.Thread(target=follow)
    thread.start()
    began = time.monotonic()
    before = [time.process_time(), cpu_s(cluster.scheduler.pid)]
    status = it.run(cluster.client, progress=lambda at: share.__setitem__(0, at.share))
    took = time.monotonic() - began
    spent_s = [time.process_time() - before[0], cpu_s(cluster.scheduler.pid) - before[1]]
    over.set()
    thread.join()
    cluster.close()
    began = time.monotonic()
    rows = it.gather().rows
    gathered_s = time.monotonic() - began
    assert status.finished == rows == runs
    parts = len(list((it.path / "parts").iterdir()))
    tenth = [statistics.median(s[n] for s in samples if s[0] <= 0.15) for n in (1, 2)]
    last = [statistics.median(s[n] for s in samples if s[0] >= 0.85) for n in (1, 2)]
    return {
        "runs": runs,
        "took_s": round(took, 1),
        "parts": parts,
        "driver_mb": [round(value, 1) for value in (tenth[0], last[0])],
        "scheduler_mb": [round(value, 1) for value in (tenth[1], last[1])],
        "driver_cpu_s": round(spent_s[0], 2),
        "scheduler_cpu_s": round(spent_s[1], 2),
        "gather_s": round(gathered_s, 1),
        "gather_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, 1),
    }


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        chosen, usual = {"efficiency": (efficiency, 600), "memory": (memory, 100_000)}[what]
        print(json.dumps(chosen(Path(temporary), int(numbers[0]) if numbers else usual)))
