"""File digests remembered by (path, size, times, inode), so that an unchanged source is not read again."""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from dscompile.artifact.hashing import digest_of, file_sha256
from dscompile.errors import SourceError, SourceNotFoundError

log = logging.getLogger("dscompile")
# A file changed within this time may change again without a new time stamp on a coarse file system.
SETTLED_NS = 2_000_000_000


class FileDigests:
    """A table of SHA-256 by file, kept in one JSON file; losing it costs time, never correctness.

    Args:
        folder: Where the tables live (`STORE/.digests`).
        paranoid: Read every file, whatever the table says.
    """

    def __init__(self, folder: Path, *, paranoid: bool = False) -> None:
        self._folder, self._paranoid = folder, paranoid
        self._new: dict[Path, dict[str, Any]] = {}

    def of(self, files: Mapping[str, Path]) -> list[dict[str, Any]]:
        """Return [{path, size, sha256}] for relative path -> file, in the order given; writes nothing.

        Raises:
            SourceNotFoundError: A file cannot be read.
        """
        table_file = self._folder / f"{digest_of([str(path) for path in files.values()])[:16]}.json"
        table = {} if self._paranoid else _load(table_file)
        stats = {name: _stat(path) for name, path in files.items()}
        known = {name: table[name][1] for name in files if _is_row(table.get(name), stats[name])}
        unknown = [name for name in files if name not in known]
        if unknown:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = pool.map(file_sha256, (files[name] for name in unknown))
                known.update(zip(unknown, found, strict=True))
            check_unchanged(files, stats)
            self._new[table_file] = {name: [stats[name], known[name]] for name in files}
        return [{"path": name, "size": stats[name][0], "sha256": known[name]} for name in files]

    def remember(self) -> None:
        """Write what was computed, for the next time; files that may still be changing are left out."""
        settled = time.time_ns() - SETTLED_NS
        for file, table in self._new.items():
            _save(file, {name: row for name, row in table.items() if max(row[0][1:3]) < settled})
        self._new = {}


def stats_of(files: Mapping[str, Path]) -> dict[str, list[int]]:
    """Return [size, mtime_ns, ctime_ns, inode] of each file, to be compared by `check_unchanged`."""
    return {name: _stat(path) for name, path in files.items()}


def check_unchanged(files: Mapping[str, Path], before: Mapping[str, list[int]]) -> None:
    """Refuse files that changed since `before` was taken.

    Raises:
        SourceError: A file changed, or is gone.
    """
    for name, path in files.items():
        if _stat(path) != before[name]:
            raise SourceError(
                str(path), "a file that stays as it is", "a change while it was read", "Build again."
            )


def _stat(path: Path) -> list[int]:
    try:
        found = path.stat()
    except OSError as error:
        raise SourceNotFoundError(
            str(path),
            "a readable file",
            error.strerror or str(error),
            "Restore the file, or correct the root.",
        ) from error
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _load(file: Path) -> dict[str, Any]:
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("%s: unreadable, file digests are computed again (%s)", file, error)
        return {}
    return table if isinstance(table, dict) else {}


def _is_row(row: Any, stat: list[int]) -> bool:
    return isinstance(row, list) and len(row) == 2 and row[0] == stat and isinstance(row[1], str)


def _save(file: Path, table: Mapping[str, Any]) -> None:
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(table), encoding="utf-8")
        draft.replace(file)
    except OSError as error:
        log.info("%s: not written, file digests will be computed again (%s)", file, error)
        with suppress(OSError):
            draft.unlink()
