"""Campaigns from Python: parts, drivers, runs that end their process."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars
import pytest

import bentpipe
from bentpipe import _child
from bentpipe import campaign as campaigns

RUNS = 12


@pytest.fixture
def planned(tmp_path: Path) -> campaigns.Campaign:
    """A campaign of twelve short runs."""
    scenario = bentpipe.parse(bentpipe.EXAMPLE).set("duration", "2 s")
    swept = scenario.sweep({"link.satellite.delay": ["9 ms", "20 ms", "100 ms", "270 ms"]})
    return campaigns.plan(swept, tmp_path / "campaign", seeds=3)


def test_processes_give_the_rows_of_one_run(planned: campaigns.Campaign, tmp_path: Path) -> None:
    shares = []
    status = planned.run(2, progress=lambda it: shares.append(it.share))
    assert (status.finished, status.missing, status.failed) == (RUNS, [], {})
    assert shares[-1] == 1.0 and shares == sorted(shares)
    runs = polars.read_parquet(planned.gather().runs)
    one = bentpipe.load(planned.path / "scenario.toml").set("duration", "2 s")
    one = one.sweep({"link.satellite.delay": ["9 ms", "20 ms", "100 ms", "270 ms"]})
    results = one.run(seeds=3, out=tmp_path)
    assert runs["fingerprint"].to_list() == [run.fingerprint for run in results.runs]
    assert runs.columns[:4] == ["run", "point", "seed", "link.satellite.delay"]
    assert "flow.file.goodput [bit/s]" in runs.columns


def test_a_part_that_is_interrupted_keeps_its_rows(planned: campaigns.Campaign) -> None:
    assert planned.part(0, 5) == 5
    assert planned.part(3, 8) == 3
    assert planned.status().missing == [range(8, RUNS)]

    def stop(_: bentpipe.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        planned.part(8, RUNS, progress=stop)
    assert planned.run(1).finished == RUNS


def test_a_run_that_ends_its_process_is_found(
    planned: campaigns.Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = campaigns._work

    def deadly(folder: str, first: int, end: int, retry: bool) -> tuple[int, str, float]:
        return (-9, "", 0.0) if first <= 7 < end else work(folder, first, end, retry)

    monkeypatch.setattr(campaigns, "_work", deadly)
    status = planned.run(2)
    assert status.finished == RUNS and list(status.failed) == [7]
    assert "killed" in status.failed[7]
    monkeypatch.undo()
    assert not planned.run(2, retry=True).failed


def test_a_process_runs_part_after_part_and_is_replaced_when_it_dies(planned: campaigns.Campaign) -> None:
    child = _child.Child()
    words = [str(planned.path), "0", "3"]
    assert child.run(words) == (0, "")
    first = child._process
    assert first and child.run([str(planned.path), "3", "5"]) == (0, "") and child._process is first
    code, error = child.run(["/nowhere", "0", "1"])
    assert code == 2 and "/nowhere" in error and child._process is first
    first.send_signal(signal.SIGSTOP)
    threading.Timer(0.2, first.kill).start()
    assert child.run(words)[0] == -signal.SIGKILL
    assert child.run(words) == (0, "") and child._process is not first
    # One that ended for want of work is no failure.
    assert child._process and child._process.stdin
    child._process.send_signal(signal.SIGINT)
    child._process.wait(60)
    assert child.run([str(planned.path), "5", "6"]) == (0, "")
    assert child.close()[0] == 0
    assert planned.status().finished == 6


def test_another_build_is_refused(planned: campaigns.Campaign) -> None:
    manifest = planned.path / "manifest.json"
    before = manifest.read_bytes()
    after = before.replace(bentpipe.build_info()["build"].encode(), b"another")
    manifest.write_bytes(after)
    with pytest.raises(OSError, match=r"manifest\.json: damaged"):
        campaigns.open(planned.path)
    # The other build wrote its own checksums.
    sums = planned.path / "SHA256SUMS"
    digests = [hashlib.sha256(bytes_).hexdigest() for bytes_ in (before, after)]
    sums.write_text(sums.read_text().replace(*digests))
    other = campaigns.open(planned.path)
    with pytest.raises(bentpipe.RunError, match="planned by build another"):
        other.run(1)


@pytest.fixture
def client() -> Iterator[Any]:
    """Two workers of Dask on this machine, each a process."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.filterwarnings("ignore")
def test_workers_of_dask_run_it_and_one_may_die(planned: campaigns.Campaign, client: Any) -> None:
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    assert planned.run(client).finished == RUNS
    assert planned.gather().rows == RUNS


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_dies_ends_the_driver(planned: campaigns.Campaign, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    where = tmp_path / "scheduler.json"

    def start(kind: str, *words: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--scheduler-file", str(where), "--no-dashboard"]
        return subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    processes = [start("scheduler", "--host", "127.0.0.1", "--port", "0")]
    processes.append(start("worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1"))
    try:
        with distributed.Client(scheduler_file=str(where), timeout=60) as client:
            client.wait_for_workers(1, timeout=60)

            def kill(it: bentpipe.Progress) -> None:
                if it.finished >= 1:
                    processes[0].kill()

            with pytest.raises(bentpipe.RunError, match="scheduler of Dask is gone: finished runs are kept"):
                planned.run(client, progress=kill)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert planned.status().finished >= 1
    assert planned.run(1).finished == RUNS


def test_two_drivers_do_no_harm(planned: campaigns.Campaign) -> None:
    program = f"import bentpipe; bentpipe.campaign.open({str(planned.path)!r}).run(1)"
    other = subprocess.Popen([sys.executable, "-c", program])
    assert planned.run(1).finished == RUNS
    assert other.wait() == 0
    assert planned.gather().rows == RUNS and not planned.status().damaged


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of object storage on this machine."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    import s3fs

    s3fs.S3FileSystem(skip_instance_cache=True).mkdir("bucket")
    yield "s3://bucket/campaigns/one"
    server.stop()


@pytest.mark.filterwarnings("ignore")
def test_object_storage_takes_the_place_of_the_folder(
    bucket: str, planned: campaigns.Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = bentpipe.load(planned.path / "scenario.toml").set("duration", "2 s")
    swept = scenario.sweep({"link.satellite.delay": ["9 ms", "20 ms", "100 ms", "270 ms"]})
    stored = campaigns.plan(swept, bucket, seeds=3)
    assert stored.address == bucket and stored.status().missing == [range(RUNS)]
    # Another machine has another copy.
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
        assert campaigns.open(bucket).part(3, 8) == 5
        assert campaigns.open(bucket).part(4, 9) == 1
    assert stored.status().missing == [range(3), range(9, RUNS)]
    assert stored.run(2).finished == RUNS
    planned.run(2)
    one, other = (polars.read_parquet(it.gather().runs) for it in (planned, stored))
    assert one["fingerprint"].to_list() == other["fingerprint"].to_list()
    with pytest.raises(FileExistsError, match="has another campaign"):
        campaigns.plan(swept, bucket, seeds=4)
    assert campaigns.plan(swept, bucket, seeds=3).status().finished == RUNS
    with pytest.raises(FileNotFoundError):
        campaigns.open("s3://bucket/none")


@pytest.mark.filterwarnings("ignore")
def test_a_driver_that_dies_loses_nothing(planned: campaigns.Campaign) -> None:
    program = f"import bentpipe; bentpipe.campaign.open({str(planned.path)!r}).run(1)"
    driver = subprocess.Popen([sys.executable, "-c", program])
    while not list((planned.path / "parts").iterdir()):
        assert driver.poll() is None or list((planned.path / "parts").iterdir())
    driver.kill()
    driver.wait()
    assert planned.run(1).finished == RUNS
