"""Campaigns under Slurm: a cluster of one node on this machine.

It is run by ``BENTPIPE_SLURM=1``, as root, with the Debian packages slurmctld, slurmd, slurm-client and munge.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bentpipe

pytestmark = pytest.mark.skipif("BENTPIPE_SLURM" not in os.environ, reason="BENTPIPE_SLURM=1 starts a Slurm of one node")

CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MaxArraySize=1001
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A controller and a node; the environment for its commands."""
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = [it.getsockname()[1] for it in (one, other)]
    text = CONFIGURATION.format(folder=folder, host=socket.gethostname(), ports=ports, cores=os.cpu_count())
    (folder / "slurm.conf").write_text(text)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    socket_path = folder / "munge.socket"
    munged = ["munged", "-F", "--force", f"--key-file={key}", f"--socket={socket_path}", f"--pid-file={folder}/munged.pid"]
    munged += [f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"]
    commands = [munged, ["slurmctld", "-D"], ["slurmd", "-D"]]
    processes: list[Any] = []
    with open(folder / "log", "wb") as log:
        for command in commands:
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            until = time.monotonic() + 20
            while command[0] == "munged" and not socket_path.exists() and time.monotonic() < until:
                time.sleep(0.1)
        try:
            until = time.monotonic() + 60
            while "idle" not in said(environment, "sinfo", "--noheader", "--format=%T"):
                assert time.monotonic() < until, (folder / "log").read_text()
                time.sleep(0.2)
            yield environment
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(timeout=20)


def said(environment: dict[str, str], *command: str) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120).stdout


@pytest.fixture
def planned(tmp_path: Path) -> bentpipe.campaign.Campaign:
    """A campaign of 400 runs of some tenths of a second."""
    scenario = bentpipe.parse(bentpipe.EXAMPLE).set("duration", os.environ.get("BENTPIPE_SLURM_DURATION", "2 s"))
    swept = scenario.sweep({"link.satellite.delay": "10 ms to 400 ms by 10 ms"})
    return bentpipe.campaign.plan(swept, tmp_path / "campaign", seeds=10)


def test_an_array_runs_a_campaign(planned: bentpipe.campaign.Campaign, slurm: dict[str, str]) -> None:
    program = "import sys, bentpipe; bentpipe.campaign.open(sys.argv[1]).part(*map(int, sys.argv[2:]))"
    part = f'first=$((SLURM_ARRAY_TASK_ID * 40)); {sys.executable} -c "{program}" {planned.path} $first $((first + 40))'
    began = time.monotonic()
    subprocess.run(
        ["sbatch", "--wait", "--array=0-9", f"--output={planned.path.parent}/%a.txt", f"--wrap={part}"],
        env=slurm,
        check=True,
        capture_output=True,
        timeout=600,
    )
    took = time.monotonic() - began
    assert planned.status().finished == 400
    print(json.dumps({"array_s": round(took, 1)}))


@pytest.mark.filterwarnings("ignore")
def test_workers_that_dask_starts_run_a_campaign(
    planned: bentpipe.campaign.Campaign, slurm: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobqueue = pytest.importorskip("dask_jobqueue")
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("SLURM_CONF", slurm["SLURM_CONF"])
    path = os.environ.get("PYTHONPATH", "")
    began = time.monotonic()
    with jobqueue.SLURMCluster(
        cores=1,
        processes=1,
        memory="500MB",
        walltime="00:10:00",
        interface="lo",
        job_extra_directives=["--mem=0"],
        job_directives_skip=["--mem="],
        job_script_prologue=[f"export PYTHONPATH={path}"],
        log_directory=str(planned.path.parent / "log"),
        scheduler_options={"dashboard_address": None, "host": "127.0.0.1"},
        python=sys.executable,
    ) as cluster:
        cluster.adapt(minimum_jobs=0, maximum_jobs=os.cpu_count())
        with distributed.Client(cluster) as client:
            assert planned.run(client).finished == 400
            hosts = {str(worker["host"]) for worker in client.scheduler_info()["workers"].values()}
    print(json.dumps({"dask_s": round(time.monotonic() - began, 1), "hosts": sorted(hosts)}))
    assert shutil.which("squeue") is not None
