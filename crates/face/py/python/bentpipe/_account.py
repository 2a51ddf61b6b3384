"""Figures of jobs on captures and streams, with the account of what was read."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike, fspath
from typing import Any, TypedDict

from bentpipe._table import _module


class Choice(TypedDict, total=False):
    """Choice of the packets or streams of an input: those that agree with all keys."""

    interface: str
    """Interface of a pcapng file, by name or number."""
    vlan: int
    """Identifier of one of the VLAN tags."""
    src: str
    """Source address."""
    dst: str
    """Destination address, such as a multicast group."""
    port: int
    """Destination port."""
    ssrc: int
    """Synchronisation source of RTP."""
    isi: int
    """Input stream identifier of baseband frames."""
    from_rohc: bool | Mapping[str, Any]
    """True, or keys of a stream's ``rohc`` in scenarios, if the capture has ROHC packets in place of IP packets."""
    hitless: bool
    """True to merge RTP streams on several paths (SMPTE ST 2022-7)."""
    keep_copies: bool
    """True to use copies of packets too, such as those of a mirrored port."""
    left_out: str | PathLike[str]
    """File of pcapng for the records that are left out, with their reasons."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Records that were left out for one reason."""

    reason: str
    """Kind of reason, such as ``protocol``."""
    detail: str
    """The reason in words."""
    records: int
    """Number of records; 0 in a file without records."""
    bytes: int
    """Number of their bytes."""
    first: int
    """Number of the first record, or the place of the first byte."""


@dataclass(frozen=True, slots=True)
class Account:
    """Account of an input: what was read is used, or left out with its reason."""

    input: str
    """Name of the input."""
    records: int
    """Number of records that were read; 0 in a file without records."""
    bytes: int
    """Number of bytes that were read."""
    used_records: int
    """Number of records that were used."""
    used_bytes: int
    """Number of bytes that were used."""
    left_out: tuple[LeftOut, ...]
    """What was left out, by reason."""
    repaired: dict[str, int]
    """Peculiarities of used records, such as ``checksum`` for headers without one, with their numbers."""
    duplicated: int
    """Number of records left out as they came before."""
    outside_bytes: int
    """Bytes of used records that belong to no packet."""
    cut_in: int | None
    """Record within which the file ends or is damaged."""
    damage: str | None
    """Error there, unless the file ends."""
    damaged_blocks: int
    """Blocks of pcapng that were passed over, as their two lengths differ."""
    damaged_at: int | None
    """Place of the first of them in the file."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Account":
        """Return the account in the object ``intake`` of figures in JSON."""
        rest = {name: value[name] for name in _PLAIN}
        left_out = tuple(LeftOut(**entry) for entry in value["left_out"])
        read, used = value["read"], value["used"]
        return cls(
            records=read["records"],
            bytes=read["bytes"],
            used_records=used["records"],
            used_bytes=used["bytes"],
            left_out=left_out,
            **rest,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the account as a dictionary."""
        return asdict(self)

    def to_pandas(self) -> Any:
        """Return what was left out as a pandas data frame, a row for each reason."""
        columns = list(LeftOut.__dataclass_fields__)
        return _module("pandas").DataFrame([asdict(entry) for entry in self.left_out], columns=columns)


_PLAIN = (
    "input",
    "repaired",
    "duplicated",
    "outside_bytes",
    "cut_in",
    "damage",
    "damaged_blocks",
    "damaged_at",
)


class Figures(dict[str, Any]):
    """Figures of a job: a dictionary, whose keys are attributes too.

    >>> figures = Figures({"packets": 3, "frames": {"frames": 0}})
    >>> figures.packets, figures.frames.frames
    (3, 0)
    """

    remarks: list[str]
    """Remarks of the job, such as the account in a line."""

    def __init__(self, values: Mapping[str, Any], remarks: list[str] | None = None) -> None:
        super().__init__(values)
        self.remarks = remarks or []

    def __getattr__(self, name: str) -> Any:
        try:
            value = self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"no figure {name!r}: expected one of {known}") from None
        return Figures(value) if isinstance(value, dict) else value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    @property
    def account(self) -> Account | None:
        """Account of the input; ``None`` for a trace, of which all is used."""
        value = self.get("intake")
        return Account.of(value) if value else None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a plain dictionary."""
        return dict(self)

    def to_pandas(self, name: str | None = None) -> Any:
        """Return a list of figures as a pandas data frame, such as ``pids``; without a name all plain ones, in a row."""
        pandas = _module("pandas")
        if name is not None:
            return pandas.json_normalize(self[name])
        plain = {key: value for key, value in self.items() if not isinstance(value, list | dict)}
        return pandas.DataFrame([plain])


def table(rohc: bool | Mapping[str, Any]) -> str | None:
    """Return ROHC's keys as JSON, `None` without compression."""
    if isinstance(rohc, bool):
        return "{}" if rohc else None
    return json.dumps(dict(rohc))


def choice(values: Choice) -> str:
    """Return the choice as JSON."""
    keys: dict[str, Any] = {**values}
    rohc = values.get("from_rohc", False)
    keys["from_rohc"] = {} if rohc is True else dict(rohc) if rohc else None
    if "left_out" in values:
        keys["left_out"] = fspath(values["left_out"])
    return json.dumps(keys)
