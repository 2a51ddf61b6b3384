"""Robust Header Compression (RFC 3095, 4815, 5225, 6846) of packets and captures.

>>> import bentpipe.rohc
>>> sender, receiver = bentpipe.rohc.Compressor(), bentpipe.rohc.Decompressor()
>>> ip = bytes.fromhex("4500001c000040004011b8cd0a0000010a000002 0400 0500 0008 0000")
>>> packets = [sender.compress(ip) for _ in range(10)]
>>> all(receiver.decompress(packet) == ip for packet in packets)
True
>>> len(packets[0]) > len(packets[-1])
True
"""

import json
import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

from bentpipe import _native
from bentpipe._account import Choice, Figures, choice


class Header(NamedTuple):
    """Compressed header: its context, and the lengths in bytes of the headers before and after."""

    cid: int
    profile: str
    packet_type: str
    len_before: int
    len_after: int


class Compressor:
    """Compressor of one direction in U-mode. Both ends need the same profiles and the same `max_cid`.

    Up to 15 CIDs are small ones, more are large ones.
    """

    def __init__(self, *, profiles: Literal["v1", "v2"] = "v1", max_cid: int = 15) -> None:
        self._native = _native.Compressor(profiles, max_cid)
        self.last: Header | None = None

    def compress(self, packet: bytes, time_s: float = 0.0) -> bytes:
        """Return the ROHC packet of an IP packet. `last` then describes its header."""
        rohc, header = self._native.compress(packet, time_s)
        self.last = Header(*header)
        return rohc


class Decompressor:
    """Decompressor of one direction in U-mode."""

    def __init__(self, *, profiles: Literal["v1", "v2"] = "v1", max_cid: int = 15) -> None:
        self._native = _native.Decompressor(profiles, max_cid)

    def decompress(self, packet: bytes, time_s: float = 0.0) -> bytes | None:
        """Return the IP packet of a ROHC packet; ``None`` for one without a packet in it, such as feedback."""
        return self._native.decompress(packet, time_s)


class Savings(Figures):
    """Savings of header compression on a capture. As text it is what ``bentpipe rohc stats`` prints."""

    text: str
    """What ``bentpipe rohc stats`` prints."""

    def __init__(self, values: Mapping[str, Any], remarks: list[str], text: str) -> None:
        super().__init__(values, remarks)
        self.text = text

    def __str__(self) -> str:
        return self.text


def stats(
    capture: str | PathLike[str],
    *,
    profiles: Literal["v1", "v2"] = "v1",
    max_cid: int = 15,
    rtp_ports: str | None = None,
    flows: int | None = None,
    **of_input: Unpack[Choice],
) -> Savings:
    """Return the savings of header compression on a capture, as ``bentpipe rohc stats --json`` has them.

    Parameters
    ----------
    rtp_ports
        Destination ports of RTP as the command takes them: "5004,5006", or "likely" for streams that look like it.
        Default: those of the command.
    flows
        Number of flows to list in the text, those with the most header bytes first.
    of_input
        Choice of the packets of the capture.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        text, remarks = _native.rohc_stats(
            Path(capture), (profiles, max_cid), rtp_ports, flows, choice(of_input), path
        )
        figures: dict[str, Any] = json.loads(path.read_bytes())
    return Savings(figures, remarks, text)
