"""Loss models of channels."""

import json
from os import PathLike
from pathlib import Path
from typing import Any

from bentpipe import _native


def fit(
    trace: str | PathLike[str], *, sequence: str | None = None, port: int | None = None, attempts: int = 7
) -> dict[str, Any]:
    """Fit loss models to a trace (0 received, 1 lost), or to a capture of received packets.

    Returns the figures that ``bentpipe channel fit --json`` writes.

    Parameters
    ----------
    sequence
        Place of the sequence numbers in a capture: ``rtp``, ``probe``, ``ip-id``, or ``OFFSET:BYTES`` in the UDP payload.
    port
        UDP destination port of the packets of a capture. Default: any.
    attempts
        Number of transmissions of each packet by a link layer, for the residual loss ratio.

    >>> import bentpipe.channel
    >>> _ = folder.joinpath("trace").write_text("0001000110" * 50)
    >>> figures = bentpipe.channel.fit(folder / "trace")
    >>> figures["frames"], figures["losses"]
    (500, 150)
    """
    figures: dict[str, Any] = json.loads(_native.fit_losses(Path(trace), sequence, port, attempts))
    return figures
