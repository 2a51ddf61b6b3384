"""IP packets in transport streams and DVB-S2 baseband frames, and back."""

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from bentpipe import _native
from bentpipe._account import Choice, Figures, choice, table


def encap(
    capture: str | PathLike[str],
    output: str | PathLike[str],
    *,
    format: str = "ule",
    pid: int = 0x201,
    packing: str | None = None,
    rohc: bool | Mapping[str, Any] = False,
    bridge: bool = False,
    **of_input: Unpack[Choice],
) -> Figures:
    """Encapsulate the packets of a capture, as ``bentpipe ts encap`` does. Returns its counts, with the account.

    Parameters
    ----------
    output
        Bare TS packets if it ends in ``.ts``, otherwise a capture that keeps times.
    format
        ``ule`` (RFC 4326), ``mpe`` (EN 301 192) or ``gse`` (TS 102 606).
    pid
        PID of the data.
    packing
        Longest wait of a partly filled packet, such as ``10 ms``. Default: no packing.
    rohc
        True, or keys of a stream's ``rohc`` in scenarios, to compress headers: ``{"cid": "large"}``.
    bridge
        Set to carry whole Ethernet frames.
    of_input
        Choice of the packets of the capture.
    """
    return _figures(
        lambda counts: _native.ts_encap(
            Path(capture), Path(output), format, pid, packing, table(rohc), bridge, choice(of_input), counts
        )
    )


def decap(
    stream: str | PathLike[str],
    output: str | PathLike[str],
    *,
    format: str | None = None,
    pids: Iterable[int] = (),
    rohc: bool | Mapping[str, Any] = False,
    bridge: bool = False,
    **of_input: Unpack[Choice],
) -> Figures:
    """Write the packets of a stream to a capture, as ``bentpipe ts decap`` does. Returns its counts, with the account.

    Parameters
    ----------
    format
        Encapsulation of the PIDs. Default: as the tables or the CRCs tell.
    pids
        PIDs to read. Default: all that carry data.
    rohc, bridge, of_input
        As of `encap`.
    """
    return _figures(
        lambda counts: _native.ts_decap(
            Path(stream), Path(output), format, list(pids), table(rohc), bridge, choice(of_input), counts
        )
    )


def inspect(
    stream: str | PathLike[str], *, measure: bool = False, pids: Iterable[int] = (), **of_input: Unpack[Choice]
) -> Figures:
    r"""Describe the contents of a stream, as ``bentpipe ts inspect --json`` does.

    With `measure` it has the indicators of TR 101 290 too.

    >>> import bentpipe.ts
    >>> _ = folder.joinpath("null.ts").write_bytes((b"\x47\x1f\xff\x10" + bytes(184)) * 9)
    >>> contents = bentpipe.ts.inspect(folder / "null.ts")
    >>> contents.packets, contents.account.used_bytes, contents.account.left_out
    (9, 1692, ())

    Parameters
    ----------
    pids
        PIDs to describe. Default: all.
    of_input
        As of `encap`.
    """
    return _figures(
        lambda contents: _native.ts_inspect(Path(stream), contents, measure, list(pids), choice(of_input))
    )


def _figures(job: Callable[[Path], list[str]]) -> Figures:
    """Return the figures that a job writes as JSON, with its remarks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        remarks = job(path)
        figures: dict[str, Any] = json.loads(path.read_bytes())
    return Figures(figures, remarks)
