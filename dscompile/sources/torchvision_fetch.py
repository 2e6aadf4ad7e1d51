"""Download a torchvision dataset beside its place, so that no file of the user is overwritten."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from dscompile.errors import DscompileError, SourceNotFoundError
from dscompile.sources.torchvision_entry import Archive, Entry, Split, missing, present, told
from dscompile.sources.torchvision_read import construct, md5_of, require_packages


def fetch(name: str, entry: Entry, root: Path, splits: Mapping[str, Split]) -> None:
    """Download or unpack the files of some splits that are missing under the root.

    Archives that already lie in the root with their published checksum are unpacked without a network. Files
    that already exist stay as they are. A download that is interrupted leaves nothing that could be taken for
    the dataset.

    Raises:
        SourceNotFoundError: A file is missing and could not be had; names it, its archive, checksum, address.
    """
    absent = {split: rows for split, rows in splits.items() if missing(root, rows) is not None}
    if not absent:
        return
    if entry.fetch == "none" or not _complete(entry, root, absent):
        raise _not_found(name, root, absent, ["torchvision cannot download this dataset"])
    require_packages(name, entry)
    remarks: list[str] = []
    try:
        _fetch_beside(entry, root, absent, remarks)
    except (DscompileError, MemoryError):
        raise
    except Exception as error:
        remarks.append(f"the download failed ({type(error).__name__}: {error})")
        raise _not_found(name, root, absent, remarks) from error
    still = {split: rows for split, rows in absent.items() if missing(root, rows) is not None}
    if still:
        raise _not_found(name, root, still, ["the published archive lacks it", *remarks])


def _complete(entry: Entry, root: Path, splits: Mapping[str, Split]) -> bool:
    """Tell whether a class that only unpacks finds its archives in the root: one for each pattern."""
    return entry.fetch != "unpack" or all(
        present(root, pattern) or (root / archive.place).is_file()
        for split in splits.values()
        for pattern, archive in zip(split.files, split.archives, strict=True)
    )


def _fetch_beside(entry: Entry, root: Path, splits: Mapping[str, Split], remarks: list[str]) -> None:
    with _folder(root), tempfile.TemporaryDirectory(prefix=".dscompile-", dir=root) as folder:
        staging = Path(folder)
        _link_archives(entry, root, staging, splits, remarks)
        # Some versions of torchvision report progress on stdout, which is for data.
        with contextlib.redirect_stdout(sys.stderr):
            for split in splits.values():
                if missing(staging, split) is not None:
                    construct(entry, staging, split.options, download=True)
        _merge(staging, root)


@contextlib.contextmanager
def _folder(root: Path) -> Iterator[None]:
    """Make a folder for the time of the block; it and its parents stay only if something is in them."""
    made = [path for path in (root, *root.parents) if not path.exists()]
    root.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for path in made:
            with contextlib.suppress(OSError):  # it holds what was fetched
                path.rmdir()


def _link_archives(
    entry: Entry, root: Path, staging: Path, splits: Mapping[str, Split], remarks: list[str]
) -> None:
    """Show torchvision the archives that are already there; one with another checksum it would overwrite."""
    for archive in dict.fromkeys(archive for split in splits.values() for archive in split.archives):
        if not (root / archive.place).is_file():
            continue
        # A class that only unpacks checks the checksum itself and writes nothing.
        found = (
            archive.md5 if entry.fetch == "unpack" or archive.md5 is None else md5_of(root / archive.place)
        )
        if found == archive.md5:
            _link(root, staging, archive.place)
        else:
            remarks.append(f"{archive.place} is there, but its md5 is {found}")
    if entry.fetch == "unpack":
        for pattern in {pattern for split in splits.values() for pattern in split.files}:
            if present(root, pattern):
                _link(root, staging, pattern.partition("/")[0])


def _link(root: Path, staging: Path, place: str) -> None:
    (staging / place).parent.mkdir(parents=True, exist_ok=True)
    (staging / place).symlink_to(root / place)


def _merge(source: Path, target: Path) -> None:
    """Move what `target` lacks out of `source`."""
    with os.scandir(source) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            place = target / entry.name
            if entry.is_symlink():
                continue
            if entry.is_dir() and place.is_dir():
                _merge(Path(entry.path), place)
            elif not place.exists():
                os.rename(entry.path, place)


def _not_found(name: str, root: Path, splits: Mapping[str, Split], remarks: list[str]) -> SourceNotFoundError:
    """Return the error about the first of some splits with missing files."""
    split, rows = next(iter(splits.items()))
    published = ", ".join(map(_describe, rows.archives))
    archives = " and ".join(archive.place for archive in rows.archives)
    place, others = told(root, missing(root, rows) or "")
    return SourceNotFoundError(
        place,
        f"this file{others} of {name}, split {split}" + (f", published in {published}" if published else ""),
        "; ".join(["no such file", *remarks]),
        f"Put it there{f', or {archives} into {root}' if archives else ''}, or ask only for splits that are "
        "there with `--split`, or choose another folder with `--root`.",
    )


def _describe(archive: Archive) -> str:
    address = f" at {archive.url}" if archive.url else ""
    return archive.place.rpartition("/")[2] + address + (f" (md5 {archive.md5})" if archive.md5 else "")
