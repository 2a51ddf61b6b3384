"""Fixtures of all tests, and names of the examples in docstrings."""

from pathlib import Path
from typing import Any

import pytest

import bentpipe


@pytest.fixture
def example() -> bentpipe.Scenario:
    """A file over a satellite, of 20 simulated seconds."""
    return bentpipe.parse(bentpipe.EXAMPLE)


@pytest.fixture(autouse=True)
def names_of_examples(doctest_namespace: dict[str, Any], tmp_path: Path) -> None:
    """Give the examples a folder to write results to."""
    doctest_namespace["folder"] = tmp_path
