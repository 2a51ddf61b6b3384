"""Bundles of the bundle protocol, version 7 (RFC 9171)."""

from typing import Any, NamedTuple

from bentpipe import _native


class Bundle(NamedTuple):
    """Fields of a bundle. Times are in milliseconds."""

    #: Endpoint that sent it, such as ``ipn:1.7`` or ``dtn://mars/rover``.
    source: str
    #: Endpoint that it is for.
    destination: str
    #: Endpoint that reports go to.
    report_to: str
    #: Processing control flags.
    flags: int
    #: Time of creation since 2000-01-01 UTC; 0 without a clock.
    time_ms: int
    #: Sequence number of bundles of one time.
    sequence: int
    #: Lifetime from the creation.
    lifetime_ms: int
    #: Offset in its bundle and length of the whole payload, if it is a fragment.
    fragment: tuple[int, int] | None
    #: Age, if it has a block of it.
    age_ms: int | None
    #: Number of hops and their limit, if it has a block of them.
    hops: tuple[int, int] | None
    #: Node that forwarded it last, if it has a block of it.
    previous_node: str | None
    #: Types of its extension blocks.
    block_types: list[int]
    #: Payload.
    payload: bytes


def decode(data: bytes) -> Bundle:
    """Parse a bundle and check its CRCs.

    Raises
    ------
    ValueError
        If the bytes are not a bundle, or break a rule of RFC 9171.
    """
    fields: dict[str, Any] = _native.decode_bundle(data)
    return Bundle(**fields)


def encode(
    source: str,
    destination: str,
    payload: bytes,
    *,
    lifetime_ms: int,
    time_ms: int,
    sequence: int = 0,
    age_ms: int | None = None,
) -> bytes:
    """Return the bytes of a bundle with CRCs.

    >>> import bentpipe.dtn
    >>> data = bentpipe.dtn.encode("ipn:1.7", "ipn:2.7", b"ping", lifetime_ms=60_000, time_ms=1, age_ms=5)
    >>> it = bentpipe.dtn.decode(data)
    >>> it.source, it.payload, it.age_ms
    ('ipn:1.7', b'ping', 5)
    """
    return _native.encode_bundle((source, destination), payload, (time_ms, sequence), lifetime_ms, age_ms)
