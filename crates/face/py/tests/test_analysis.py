"""Analysis of results, header compression and channels."""

import json
import math
import os
import statistics
import subprocess
from pathlib import Path

import pytest

import bentpipe
from bentpipe import channel, rohc, ts

ROOT = Path(os.environ["BENTPIPE_ROOT"])
BUILT = Path(os.environ["BENTPIPE_BUILT"])

LOSSY = bentpipe.EXAMPLE.replace(
    'rate = "1 Mbit/s"\n', 'rate = "1 Mbit/s"\nchannel = { kind = "packet-errors", loss = 0.01 }\n'
)


COLUMNS = ["sent", "copied", "delivered", "taken-over", "dropped", "remaining"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> bentpipe.Results:
    scenario = bentpipe.parse(LOSSY).sweep({"flow.file.traffic.controller": ["newreno", "cubic"]})
    return scenario.run(seeds=4, out=tmp_path_factory.mktemp("runs"))


def test_paired_differences_are_those_of_the_values(results: bentpipe.Results) -> None:
    name = "flow.file.goodput"
    row = next(row for row in results.compare(other_point=1).rows() if row["measure"] == name)
    pairs = [second - first for first, second in zip(results.values(name, 0), results.values(name, 1), strict=True)]
    assert row["n"] == 4
    assert row["difference"] == pytest.approx(statistics.mean(pairs))
    # Student's t with three degrees of freedom.
    assert row["ci95"] == pytest.approx(3.182446305 * statistics.stdev(pairs) / 2, rel=1e-6)
    with pytest.raises(OSError, match="expected"):
        results.compare(other_point=9)


def test_accounts_close_and_measures_are_their_sums(results: bentpipe.Results) -> None:
    rows = list(results.ledger.rows())
    assert {(row["point"], row["seed"]) for row in rows} == {(run.point, run.seed) for run in results.runs}
    for run in results.runs:
        of_run = [row for row in rows if (row["point"], row["seed"]) == (run.point, run.seed)]
        of_sender = [row for row in of_run if row["sender"] == "flow.file.sender"]
        packets = {column: sum(row["packets"] for row in of_sender if row["column"] == column) for column in COLUMNS}
        assert packets["sent"] + packets["copied"] == sum(packets[column] for column in COLUMNS[2:])
        assert all(row["place"] and row["reason"] for row in of_sender if row["column"] == "dropped")
    lost = sum(row["packets"] for row in rows if row["point"] == 0 and row["reason"] == "channel" and "sender" in row["sender"])
    assert lost > 0
    assert sum(results.values("flow.file.dropped-channel")) == lost


def test_accounts_of_units_close(results: bentpipe.Results) -> None:
    rows = list(results.units.rows())
    assert {(row["point"], row["seed"]) for row in rows} == {(run.point, run.seed) for run in results.runs}
    for run in results.runs:
        of_run = [row for row in rows if (row["point"], row["seed"], row["flow"]) == (run.point, run.seed, "flow.file")]
        assert {row["unit"] for row in of_run} == {"B"}
        signs = {"offered": 1, "copied": 1}
        assert sum(row["count"] * signs.get(row["column"], -1) for row in of_run) == 0
        assert not any(row["reason"] == "unaccounted" for row in of_run)


def test_the_seeds_needed_give_the_interval(results: bentpipe.Results) -> None:
    estimate = results.value("flow.file.goodput")
    assert estimate.ci95 is not None
    assert results.seeds_needed("flow.file.goodput", absolute=estimate.ci95 * 1.0001) == 4
    needed = results.seeds_needed("flow.file.goodput", relative=estimate.ci95 / estimate.mean / 10)
    assert needed is not None
    assert 100 < needed < 400
    with pytest.raises(TypeError, match="either"):
        results.seeds_needed("flow.file.goodput")


def test_percentiles_are_over_the_seeds(results: bentpipe.Results) -> None:
    title = "flow.file.sender.cwnd [B]"
    series = results.series("*.sender.cwnd").rows()
    table = results.percentiles("*.sender.cwnd", shares=[0.0, 0.5, 1.0]).rows()
    row = next(row for row in table if row["point"] == 1 and row["time_s"] == 10.0)
    values = [of[title] for of in series if of["point"] == 1 and of["time_s"] == 10.0]
    assert row["seeds"] == len(values) == 4
    assert [row[f"p{p} of {title}"] for p in (0, 50, 100)] == [min(values), statistics.median(values), max(values)]
    with pytest.raises(ValueError, match="shares"):
        results.percentiles("*", shares=[50])


def test_distributions_rise_from_none_to_all(results: bentpipe.Results) -> None:
    udp = LOSSY.replace('traffic = "tcp"', 'traffic = { kind = "udp", payload = "500 B", pattern = { kind = "constant-rate", rate = "200 kbit/s" } }')
    found = bentpipe.parse(udp).run(seeds=2, out=results.path.parent).distributions.rows()
    shares = [row["share"] for row in found if row["metric"] == "delays"]
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert shares == sorted(shares)
    # The path has 280 ms of propagation.
    assert min(row["value"] for row in found) > 0.28


def test_tables_and_plots_are_those_of_the_report(results: bentpipe.Results) -> None:
    flows, links = results.tables(1)
    assert flows.head[0] == "flow"
    assert "goodput" in flows.head
    assert len(links.rows) == 4
    assert r"\begin{tabular}" in flows.to_latex()
    plots = results.plots(1)
    assert any("window" in plot.title.lower() for plot in plots)
    assert all(plot._repr_svg_().startswith("<svg") for plot in plots)
    assert "<table>" in results._repr_html_()
    with pytest.raises(IndexError):
        results.plots(2)
    assert results.notes(1) == []
    with pytest.raises(IndexError):
        results.notes(2)


def test_rohc_of_bytes_and_captures() -> None:
    stats = rohc.stats(ROOT / "scenarios/call.pcap")
    assert "packets" in str(stats)
    assert stats.account is not None
    assert stats.account.records == stats.account.used_records > 0
    assert stats.account.left_out == ()
    with pytest.raises(OSError, match="absent"):
        rohc.stats("absent.pcap")
    for profiles in ("v1", "v2"):
        sender, receiver = rohc.Compressor(profiles=profiles, max_cid=100), rohc.Decompressor(profiles=profiles, max_cid=100)
        for number in range(20):
            ip = bytes([0x60, 0, 0, 0, 0, 12, 17, 64, *range(32), 4, 0, 5, 0, 0, 12, 0, number, 1, 2, 3, 4])
            assert receiver.decompress(sender.compress(ip)) == ip
        assert sender.last is not None
        assert sender.last.len_before == 48
        assert sender.last.len_after < 10
    with pytest.raises(bentpipe.RohcError):
        rohc.Decompressor().decompress(b"\x00\x01\x02")
    with pytest.raises(ValueError, match="max_cid"):
        rohc.Compressor(max_cid=20000)


def test_streams_have_an_account(tmp_path: Path) -> None:
    capture, stream = ROOT / "scenarios/call.pcap", tmp_path / "call.ts"
    carried = ts.encap(capture, stream, format="mpe")
    assert carried.account is not None
    assert carried.account.used_records == carried.account.records
    assert any("records" in remark for remark in carried.remarks)
    contents = ts.inspect(stream, pids=[0x201])
    assert [pid["pid"] for pid in contents.pids] == [0x201]
    assert contents.account is not None
    assert contents.account.used_bytes == stream.stat().st_size
    back = ts.decap(stream, tmp_path / "back.pcap")
    assert back.account is not None
    assert back.account.to_dict()["used_bytes"] == stream.stat().st_size
    left_out = tmp_path / "left-out.pcapng"
    with pytest.raises(ValueError, match="not selected by --port 9"):
        ts.encap(capture, stream, port=9, left_out=left_out)
    with pytest.raises(ValueError, match="unknown field"):
        ts.inspect(stream, prt=9)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="expected one of"):
        _ = contents.absent


def test_channel_fits_are_those_of_the_command_line(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text("".join("1" if math.sin(n) * math.sin(n / 7) > 0.6 else "0" for n in range(2000)))
    figures = channel.fit(trace)
    program = BUILT / "bentpipe"
    if not program.is_file():
        assert "CI" not in os.environ, f"{program} is not built"
        pytest.skip(f"{program} is not built")
    subprocess.run([program, "channel", "fit", "--json", tmp_path / "fit.json", trace], check=True, capture_output=True)
    assert figures == json.loads((tmp_path / "fit.json").read_text())
