"""Loss models of channels."""

import json
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from bentpipe import _native
from bentpipe._account import Choice, Figures, choice


def fit(
    trace: str | PathLike[str], *, sequence: str | None = None, attempts: int = 7, **of_input: Unpack[Choice]
) -> Figures:
    """Fit loss models to a trace (0 received, 1 lost), or to a capture of received packets.

    Returns the figures that ``bentpipe channel fit --json`` writes, of a capture with the account.

    Parameters
    ----------
    sequence
        Place of the sequence numbers in a capture: ``rtp``, ``probe``, ``ip-id``, or ``OFFSET:BYTES`` in the UDP payload.
    attempts
        Number of transmissions of each packet by a link layer, for the residual loss ratio.
    of_input
        Choice of the packets of a capture, such as their ``port``.

    >>> import bentpipe.channel
    >>> _ = folder.joinpath("trace").write_text("0001000110" * 50)
    >>> figures = bentpipe.channel.fit(folder / "trace")
    >>> figures["frames"], figures["losses"]
    (500, 150)
    """
    figures: dict[str, Any] = json.loads(_native.fit_losses(Path(trace), sequence, attempts, choice(of_input)))
    return Figures(figures)
