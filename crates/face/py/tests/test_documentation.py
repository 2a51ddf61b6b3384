"""Examples of the book's page."""

import os
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(os.environ["BENTPIPE_ROOT"])


def test_the_examples_of_the_page_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/python.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    # A file, as controllers are known by their source.
    Path("page.py").write_text("\n".join(blocks))
    runpy.run_path("page.py", run_name="page")
