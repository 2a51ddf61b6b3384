"""IP packets in transport streams and DVB-S2 baseband frames, and back."""

import json
import tempfile
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from bentpipe import _native


def encap(
    capture: str | PathLike[str],
    output: str | PathLike[str],
    *,
    format: str = "ule",
    pid: int = 0x201,
    packing: str | None = None,
    rohc: bool | Mapping[str, Any] = False,
    bridge: bool = False,
) -> list[str]:
    """Encapsulate the packets of a capture, as ``bentpipe ts encap`` does. Returns remarks.

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
    """
    return _native.ts_encap(Path(capture), Path(output), format, pid, packing, _table(rohc), bridge)


def decap(
    stream: str | PathLike[str],
    output: str | PathLike[str],
    *,
    format: str | None = None,
    pids: Iterable[int] = (),
    rohc: bool | Mapping[str, Any] = False,
    bridge: bool = False,
) -> list[str]:
    """Write the packets of a stream to a capture, as ``bentpipe ts decap`` does. Returns remarks.

    Parameters
    ----------
    format
        Encapsulation of the PIDs. Default: as the tables or the CRCs tell.
    pids
        PIDs to read. Default: all that carry data.
    rohc, bridge
        As of `encap`.
    """
    return _native.ts_decap(Path(stream), Path(output), format, list(pids), _table(rohc), bridge)


def _table(rohc: bool | Mapping[str, Any]) -> str | None:
    """Return ROHC's keys as JSON, `None` without compression."""
    if isinstance(rohc, bool):
        return "{}" if rohc else None
    return json.dumps(dict(rohc))


def inspect(stream: str | PathLike[str], *, measure: bool = False) -> dict[str, Any]:
    """Describe the contents of a stream, as ``bentpipe ts inspect --json`` does.

    With `measure` it has the indicators of TR 101 290 too.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "contents.json"
        _native.ts_inspect(Path(stream), path, measure)
        contents: dict[str, Any] = json.loads(path.read_bytes())
    return contents
