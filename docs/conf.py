"""Settings of Sphinx, which renders the book: `cargo xtask book`.

`SUMMARY.md` is the index of the book. Its parts become tables of contents of the first page.
"""

import re
from pathlib import Path
from typing import Any

BOOK = Path(__file__).parent

project = "bentpipe"
author = "the bentpipe authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
exclude_patterns = ["SUMMARY.md"]
html_theme = "furo"
html_title = "The bentpipe book"
# Without the machine's clock the same sources give the same pages.
html_last_updated_fmt = None
myst_heading_anchors = 4
# Examples of files have keys that a highlighter does not know.
suppress_warnings = ["misc.highlighting_failure"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"


def _contents() -> str:
    """Return the parts of SUMMARY.md as tables of contents."""
    parts: list[str] = []
    for line in (BOOK / "SUMMARY.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"# (.+)", line):
            parts.append(f"\n```{{toctree}}\n:hidden:\n:caption: {heading[1]}\n\n")
        elif (entry := re.fullmatch(r"\s*- \[(.+)\]\((.+)\.md\)", line)) and parts:
            parts[-1] += f"{entry[1]} <{entry[2]}>\n"
    # The first part is the title.
    return "".join(f"{part}```\n" for part in parts if "<" in part)


def _link(page: Path, match: re.Match[str]) -> str:
    """Return a link, or its text alone if it leads to a file or folder that the book does not have."""
    text, path = match[1], match[2].partition("#")[0]
    if not path or "://" in path:
        return match[0]
    target = (page.parent / path).resolve()
    has_it = target.is_relative_to(BOOK) and target.is_file() and target.name != "SUMMARY.md"
    return match[0] if has_it else text


def _read(_: Any, page: str, source: list[str]) -> None:
    """Give the first page the index, and take away links out of the book and the comments that tests of pages read."""
    source[0] = re.sub(r"(?m)^<!-- .* -->\n", "", source[0])
    source[0] = re.sub(r"(?<!!)\[([^\[\]]+)\]\(([^()\s]+)\)", lambda match: _link(BOOK / page, match), source[0])
    # `console` is a session with prompts; Pygments cannot read some of them, and shows those as they are.
    source[0] = source[0].replace("```console", "```text")
    if page == root_doc:
        source[0] += _contents()


def _head_examples(*arguments: Any) -> None:
    """Give examples in docstrings their heading: without it they would belong to the section above."""
    lines: list[str] = arguments[-1]
    first = next((number for number, line in enumerate(lines) if line.startswith(">>>")), None)
    if first is not None and any(re.fullmatch(r"-{3,}", line) for line in lines[:first]):
        lines[first:first] = ["Examples", "--------"]


def setup(app: Any) -> None:
    """Register the changes of pages."""
    app.connect("source-read", _read)
    # Before the extension that reads sections.
    app.connect("autodoc-process-docstring", _head_examples, priority=400)
