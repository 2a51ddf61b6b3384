"""Tables of results."""

import importlib
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from bentpipe import _native

if TYPE_CHECKING:
    import polars

_SHOWN = 20


class Table:
    """Table of results with typed columns.

    Any library with the Arrow PyCapsule interface reads it: ``polars.DataFrame(table)``, ``pandas.DataFrame.from_arrow(table)``,
    ``pyarrow.table(table)``, and duckdb. Columns with a unit have it in their title and in the field's metadata (``unit``).

    >>> import bentpipe
    >>> table = bentpipe.parse(bentpipe.EXAMPLE).run(out=folder).summary
    >>> table.columns
    ['point', 'measure', 'unit', 'n', 'mean', 'ci95']
    >>> "flow.file.goodput" in table["measure"]
    True
    """

    def __init__(self, native: _native.Frame) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the table as an Arrow C stream in a PyCapsule."""
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the types of the columns as an Arrow C schema in a PyCapsule."""
        return self._native.__arrow_c_schema__()

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, title: str) -> list[Any]:
        """Return the values of a column; NaN where there is no value."""
        return self._native.column(title)

    def __contains__(self, title: object) -> bool:
        return title in self.columns

    def _ipython_key_completions_(self) -> list[str]:
        return self.columns

    @property
    def columns(self) -> list[str]:
        """Titles of the columns, with units: ``flow.x.sender.cwnd [B]``."""
        return self._native.columns

    @property
    def units(self) -> dict[str, str]:
        """Units of the columns that have one, by title."""
        return self._native.units

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        values = [self[title] for title in self.columns]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*values, strict=True)]

    def to_pandas(self) -> Any:
        """Return a pandas data frame."""
        return _module("pandas").DataFrame.from_arrow(self)

    def to_polars(self) -> "polars.DataFrame":
        """Return a polars data frame."""
        frame: polars.DataFrame = _module("polars").DataFrame(self)
        return frame

    def to_arrow(self) -> Any:
        """Return a pyarrow table."""
        return _module("pyarrow").table(self)

    def to_csv(self) -> str:
        """Return the table as CSV, numbers with all their digits."""
        return self._native.to_csv()

    def __repr__(self) -> str:
        return f"<bentpipe.Table: {len(self)} rows, {len(self.columns)} columns>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(title)}</th>" for title in self.columns)
        columns = [self[title][:_SHOWN] for title in self.columns]
        rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in zip(*columns, strict=True))
        more = len(self) - _SHOWN
        foot = f"<p>and {more} more rows</p>" if more > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{foot}"


class TextTable(NamedTuple):
    """Table for readers, whose cells have units and intervals.

    >>> print(TextTable(["flow", "goodput"], [["file", "1 Mbit/s"]]).to_latex())
    \\begin{tabular}{ll}
    flow & goodput \\\\
    \\hline
    file & 1 Mbit/s \\\\
    \\end{tabular}
    <BLANKLINE>
    """

    head: list[str]
    rows: list[list[str]]

    def to_latex(self) -> str:
        """Return the table as a LaTeX ``tabular``."""
        return _native.latex(self.head, self.rows)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(title)}</th>" for title in self.head)
        rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _cell(value: object) -> str:
    return f"<td>{escape(f'{value:.6g}' if isinstance(value, float) else str(value))}</td>"


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {name}: pip install {name}") from error
