"""The notebooks, each run in a kernel of its own."""

import os
import shutil
import time
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(os.environ["BENTPIPE_ROOT"])
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_are_five() -> None:
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_in_a_minute_and_is_kept_without_outputs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code), "strip the outputs"
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    folder = tmp_path / "notebooks"
    folder.mkdir()
    shutil.copy(path, folder)
    began = time.monotonic()
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    assert time.monotonic() - began < 60
    printed = "".join(
        output.text for cell in code for output in cell.outputs if output.output_type == "stream" and output.name == "stdout"
    )
    assert "±" in printed or "interval" in printed, printed
