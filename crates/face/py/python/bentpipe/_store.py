"""Campaigns on object storage, each with a copy in a folder of this machine."""

import hashlib
import os
import uuid
from os import PathLike
from pathlib import Path
from typing import Any

#: File that is written last, and names all others but the parts.
_MANIFEST = "manifest.json"


def is_address(folder: str | PathLike[str]) -> bool:
    """Return true for an address such as ``s3://bucket/campaign``, and false for a path."""
    return isinstance(folder, str) and "://" in folder


class Store:
    """Folder of a campaign on object storage.

    Each part is one object under the name that it has in a folder. An object appears as a whole, so there is no need to rename one.
    """

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(f"{url}: object storage needs the package fsspec, and s3fs for s3://") from error
        self.url = url.rstrip("/")
        self._files: Any
        # Listings of other processes' parts must not be remembered.
        self._files, self._root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)

    def create(self, folder: Path) -> None:
        """Write a planned campaign.

        Raises
        ------
        FileExistsError
            If there is another one.
        """
        manifest = (folder / _MANIFEST).read_bytes()
        if self._files.exists(self._at(_MANIFEST)):
            if self._files.cat_file(self._at(_MANIFEST)) != manifest:
                raise FileExistsError(f"{self.url}: has another campaign: expected a new address, or the same plan")
            return
        files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        for name in sorted(files, key=lambda name: name == _MANIFEST):
            self._files.pipe_file(self._at(name), (folder / name).read_bytes())

    def mirror(self) -> Path:
        """Return the folder of this machine's copy. It has all files but parts.

        Raises
        ------
        FileNotFoundError
            If there is no campaign.
        """
        manifest = self._files.cat_file(self._at(_MANIFEST))
        identity = hashlib.sha256(self.url.encode() + b"\0" + manifest).hexdigest()[:24]
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = caches / "bentpipe" / "campaigns" / identity
        if not (folder / _MANIFEST).is_file():
            (folder / "parts").mkdir(parents=True, exist_ok=True)
            names = [path.removeprefix(self._root).lstrip("/") for path in self._files.find(self._root)]
            for name in sorted(names, key=lambda name: name == _MANIFEST):
                if not name.startswith("parts/") and ".." not in name.split("/"):
                    self._get(name, folder)
        return folder

    def pull(self, folder: Path, runs: range | None = None) -> None:
        """Fetch the parts that the copy lacks: all, or those with runs of a range."""
        present = set(os.listdir(folder / "parts"))
        for name in self._parts() - present:
            if runs is None or _overlaps(name, runs):
                self._get(f"parts/{name}", folder)

    def push(self, folder: Path) -> None:
        """Write the parts that only the copy has."""
        mine = {path.name for path in (folder / "parts").glob("*.parquet") if not path.name.startswith(".")}
        for name in sorted(mine - self._parts()):
            self._files.pipe_file(self._at(f"parts/{name}"), (folder / "parts" / name).read_bytes())

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _parts(self) -> set[str]:
        try:
            found = self._files.ls(self._at("parts"), detail=False)
        except FileNotFoundError:
            # Storage has no empty folders.
            return set()
        names = {str(path).rpartition("/")[2] for path in found}
        return {name for name in names if name.endswith(".parquet") and not name.startswith(".")}

    def _get(self, name: str, folder: Path) -> None:
        to = folder / name
        to.parent.mkdir(parents=True, exist_ok=True)
        # Several processes of this machine share the copy.
        partial = to.with_name(f".{uuid.uuid4().hex}")
        try:
            partial.write_bytes(self._files.cat_file(self._at(name)))
            partial.replace(to)
        finally:
            partial.unlink(missing_ok=True)


def _overlaps(name: str, runs: range) -> bool:
    """Return true unless a part's name, its first and last run, says that it has none of the range."""
    first, last, *_ = [*name.split("-"), "", ""]
    if not (first.isdecimal() and last.isdecimal()):
        return True
    return int(first) < runs.stop and runs.start <= int(last)
