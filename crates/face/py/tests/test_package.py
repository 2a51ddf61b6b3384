"""The package as a user has it."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import bentpipe

ROOT = Path(os.environ["BENTPIPE_ROOT"])
BUILT = Path(os.environ["BENTPIPE_BUILT"])

LOSSY = bentpipe.EXAMPLE.replace(
    'rate = "1 Mbit/s"\n', 'rate = "1 Mbit/s"\nchannel = { kind = "packet-errors", loss = 0.01 }\n'
)
# More simulated time than a test waits for.
LONG = LOSSY.replace("1 Mbit/s", "100 Mbit/s").replace('"20 s"', '"100000 s"')


def test_errors_have_their_place(example: bentpipe.Scenario) -> None:
    text = bentpipe.EXAMPLE.replace('"1 Mbit/s"', '"1 Mbit"').replace('to = "client"', 'to = "clint"')
    with pytest.raises(bentpipe.ScenarioError) as raised:
        bentpipe.parse(text, name="mine.toml").check()
    error = raised.value
    assert (error.file, error.line, error.column, error.key) == ("mine.toml", 9, 8, "link.satellite.rate")
    assert "mine.toml:9:8: link.satellite.rate: " in str(error)
    with pytest.raises(ValueError, match="expected KEY|unknown|link") as raised_value:
        example.set("link.satelite.rate", "1 Mbit/s").check()
    assert isinstance(raised_value.value, bentpipe.ScenarioError)
    assert raised_value.value.problems[0].line is None
    again = pickle.loads(pickle.dumps(error))
    assert (again.problems, str(again)) == (error.problems, str(error))
    with pytest.raises(FileNotFoundError):
        bentpipe.load("absent.toml")
    with pytest.raises(OSError, match="manifest.json"):
        bentpipe.open("absent")


def test_values_of_python_are_values_of_toml(example: bentpipe.Scenario) -> None:
    assert "seed = 7" in example.set("seed", 7).to_toml()
    assert example.set("seed", "7").hash == example.set("seed", 7).hash
    swept = example.set("flow.file.traffic", {"kind": "tcp", "controller": "cubic", "initial_window": 4})
    assert "cubic" in swept.to_toml()
    assert example.sweep({"link.satellite.delay": (f"{ms} ms" for ms in (1, 2))}).axes == {"link.satellite.delay": 2}
    assert example.sweep({"flow.file.traffic.initial_window": "1 to 9 by 2"}).axes["flow.file.traffic.initial_window"] == 5
    with pytest.raises(TypeError, match="NoneType"):
        example.set("seed", None)
    nested: list[object] = []
    nested.append(nested)
    with pytest.raises(TypeError, match="nested"):
        example.set("seed", nested)


def test_a_sweep_with_seeds_is_run_once(tmp_path: Path) -> None:
    scenario = bentpipe.parse(LOSSY).sweep({"link.satellite.delay": ["20 ms", "270 ms"]})
    results = scenario.run(seeds=2, seed=5, jobs=2, out=tmp_path)
    assert [(run.point, run.seed) for run in results.runs] == [(0, 5), (0, 6), (1, 5), (1, 6)]
    assert results.points == [{"link.satellite.delay": "20 ms"}, {"link.satellite.delay": "270 ms"}]
    assert len(set(results.fingerprints)) == 4
    assert results.report.is_file()
    assert results.value("flow.file.goodput", point=0).mean > results.value("flow.file.goodput", point=1).mean
    with pytest.raises(KeyError, match="flow.none"):
        results.value("flow.none")
    written = [run.path.joinpath("outcome.json").stat().st_mtime_ns for run in results.runs]
    again = scenario.run(seeds=2, seed=5, out=tmp_path)
    assert [run.path.joinpath("outcome.json").stat().st_mtime_ns for run in again.runs] == written
    with pytest.raises(ValueError, match="seeds"):
        scenario.run(seeds=0, out=tmp_path)


def test_fingerprints_are_those_of_the_command_line(tmp_path: Path) -> None:
    program = BUILT / "bentpipe"
    if not program.is_file():
        assert "CI" not in os.environ, f"{program} is not built"
        pytest.skip(f"{program} is not built")
    scenario = bentpipe.load(ROOT / "scenarios/geo.toml").set("duration", "5 s")
    results = scenario.run(seeds=2, out=tmp_path / "python")
    words = [program, "run", ROOT / "scenarios/geo.toml", "--set", "duration=5 s", "--seeds", "2", "--out", tmp_path / "program"]
    subprocess.run(words, check=True, capture_output=True)
    (folder,) = (tmp_path / "program").iterdir()
    assert folder.name == results.path.name
    for name in ["summary.json", "measures.csv", "summary.csv"]:
        assert (folder / name).read_bytes() == (results.path / name).read_bytes()
    assert bentpipe.open(folder).fingerprints == results.fingerprints


def test_series_go_to_other_packages(tmp_path: Path) -> None:
    import duckdb
    import pandas
    import polars
    import pyarrow

    results = bentpipe.parse(LOSSY).run(out=tmp_path)
    table = results.series("*.sender.cwnd", "*.sender.ssthresh")
    title = "flow.file.sender.cwnd [B]"
    assert table.units[title] == "B"
    arrow = pyarrow.table(table)
    assert arrow.schema.field(title).metadata == {b"unit": b"B"}
    assert polars.DataFrame(table)[title].to_list() == table[title]
    assert pandas.DataFrame.from_arrow(table)[title].tolist() == table[title]
    assert table.to_pandas().shape == table.to_polars().shape == table.to_arrow().shape
    (largest,) = duckdb.sql(f'select max("{title}") from arrow').fetchall()[0]
    assert largest == max(table[title])
    # No value before the first loss: a null, not a number.
    summary = results.summary.to_arrow()
    assert summary.column("ci95").null_count == len(summary)
    long = results.series("*.sender.cwnd", long=True)
    assert set(long["subject"]) == {"flow.file.sender"}
    assert table.to_csv().splitlines()[0] == f"point,seed,time_s,{title},flow.file.sender.ssthresh [B]"
    with pytest.raises(ValueError, match="no series matches"):
        results.series("nothing")


def test_html_is_escaped(tmp_path: Path) -> None:
    text = bentpipe.EXAMPLE.replace("A file over a satellite", "<script>alert(1)</script>").replace("20 s", "1 s")
    html = bentpipe.parse(text).run(out=tmp_path)._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script" not in html


def test_progress_is_called_on_the_calling_thread_and_others_run_meanwhile(tmp_path: Path) -> None:
    calls: list[tuple[bentpipe.Progress, int]] = []
    turns = 0
    ended = threading.Event()

    def turn() -> None:
        nonlocal turns
        while not ended.is_set():
            turns += 1
            time.sleep(0.001)

    other = threading.Thread(target=turn)
    other.start()
    bentpipe.parse(LOSSY).run(seeds=2, out=tmp_path, progress=lambda it: calls.append((it, threading.get_ident())))
    ended.set()
    other.join()
    assert {thread for _, thread in calls} == {threading.get_ident()}
    assert calls[-1][0] == bentpipe.Progress(1.0, 2, 2)
    assert turns > 1


def test_an_exception_of_the_callback_ends_the_run(tmp_path: Path) -> None:
    def refuse(progress: bentpipe.Progress) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        bentpipe.parse(LONG).run(out=tmp_path, progress=refuse)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own handler of SIGINT, which it does not set where a shell started it in its background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_run_and_keeps_finished_points(tmp_path: Path) -> None:
    scenario = bentpipe.parse(LOSSY).sweep({"duration": ["1 s", "100000 s"]})
    sent: list[float] = []

    def interrupt(progress: bentpipe.Progress) -> None:
        if progress.finished == 1 and not sent:
            sent.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        scenario.run(jobs=1, out=tmp_path, progress=interrupt)
    # Far less than the run would take; the bound that users see is measured in docs/python.md.
    assert time.monotonic() - sent[0] < 60
    assert [path.parent.name for path in tmp_path.glob("*/points/*/outcome.json")] == ["p000-s1"]


def test_pickles_travel(tmp_path: Path, example: bentpipe.Scenario) -> None:
    scenario = example.set("duration", "1 s").set("link.satellite.delay", "20 ms")
    again = pickle.loads(pickle.dumps(scenario))
    assert (again.hash, again.name, again.title) == (scenario.hash, scenario.name, scenario.title)
    results = scenario.run(out=tmp_path)
    assert pickle.loads(pickle.dumps(results)).fingerprints == results.fingerprints
    from_file = bentpipe.load(ROOT / "scenarios/leo-pass.toml")
    assert pickle.loads(pickle.dumps(from_file)).hash == from_file.hash


def fingerprints(scenario: bentpipe.Scenario, folder: Path) -> list[str]:
    return scenario.run(out=folder).fingerprints


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_other_processes_give_the_same(method: str, tmp_path: Path) -> None:
    scenario = bentpipe.parse(LOSSY).set("duration", "1 s")
    own = fingerprints(scenario, tmp_path / "own")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        assert pool.submit(fingerprints, scenario, tmp_path / "other").result() == own


def test_no_dependency_is_imported() -> None:
    code = "import sys, bentpipe; print(sorted({'numpy', 'pandas', 'pyarrow', 'polars'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout == "[]\n"
