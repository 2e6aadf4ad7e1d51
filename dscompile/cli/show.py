"""What the commands print: tables and progress for people, plain data for `--json`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dscompile.artifact.manifest import FILE_NAME, Manifest
from dscompile.artifact.store import Entry

if TYPE_CHECKING:
    from dscompile.compiler.build import Built
    from dscompile.formats.verify import Problem

Callback = Callable[[str, int, int], None]


def build_data(found: Built) -> dict[str, Any]:
    """Return the JSON object of `build`."""
    if found.manifest is None:
        return {"artifact": str(found.path), "built": False, "dry_run": True, "plan": dict(found.plan)}
    manifest = found.manifest
    origin = {} if manifest.parent is None else {"lossless": lossless(manifest)}
    return {
        "artifact": str(found.path),
        "name": manifest.name,
        "recipe_id": manifest.recipe_id,
        "content_digest": manifest.content_digest,
        "built": found.built,
        "seconds": round(found.seconds, 4),
        "splits": {name: split.samples for name, split in manifest.splits.items()},
        "bytes": manifest.bytes_on_disk,
        **origin,
    }


def lossless(manifest: Manifest) -> bool:
    """Whether a converted artifact holds the very values of its parent."""
    parent = manifest.parent or {}
    return bool(manifest.content_digest == parent.get("content_digest"))


def entry_data(entry: Entry) -> dict[str, Any]:
    """Return one artifact of `list --json`; `last_used` is the manifest's access time."""
    stat = os.stat(entry.path / FILE_NAME)
    data = {"name": entry.path.parent.name, "id": entry.path.name, "path": str(entry.path)}
    if entry.manifest is None:
        return {**data, "problem": str(entry.problem)}
    return {
        **data,
        "format": entry.manifest.container,
        "splits": {name: split.samples for name, split in entry.manifest.splits.items()},
        "bytes": entry.manifest.bytes_on_disk,
        "created": _time(stat.st_mtime),
        "last_used": _time(stat.st_atime),
    }


def report(found: Built) -> None:
    """Say what a build did and how to open it."""
    if found.manifest is None:
        _table(f"would build {found.path}", ["what", "value"], _plan_rows(found.plan))
        return
    manifest = found.manifest
    splits = ", ".join(f"{name} {split.samples:,}" for name, split in manifest.splits.items())
    verb = "built" if found.built else "found"
    click.echo(f"{verb} {found.path}  ({splits}; {size(manifest.bytes_on_disk)}; {found.seconds:.2f} s)")
    if manifest.parent is not None:
        same = "the parent's content digest" if lossless(manifest) else "values rounded to another dtype"
        click.echo(plain(f"converted from {manifest.parent.get('container')}: {same}"))
    click.echo(plain(f'open it with dscompile.open("{manifest.name}@{found.path.name}", split=…)'))


def entries(rows: Sequence[dict[str, Any]], root: Path) -> None:
    """Print the artifacts of a store as a table."""
    if not rows:
        click.echo(f"no artifacts in {root}")
        return
    cells = [
        [row["name"], row["id"], "damaged", "", "", row["problem"]]
        if "problem" in row
        else [
            row["name"],
            row["id"],
            row["format"],
            ", ".join(f"{name} {samples:,}" for name, samples in row["splits"].items()),
            size(row["bytes"]),
            row["created"],
        ]
        for row in rows
    ]
    _table(str(root), ["name", "id", "format", "splits", "size", "created"], cells)


def manifest(path: Path, found: Manifest) -> None:
    """Print what an artifact holds: fields, splits, statistics."""
    fields = []
    for item in found.fields:
        norm = item.normalisation
        extra = [f"{len(item.classes)} classes"] if item.classes else []
        if norm is not None:
            applied = "applied" if norm.applied else "left to the loader"
            extra.append(f"mean {_numbers(norm.mean)} std {_numbers(norm.std)} ({norm.origin}, {applied})")
        fields.append([item.name, item.dtype, str(list(item.shape)), item.layout or "", "; ".join(extra)])
    _table(f"{found.name} ({found.container})  {path}", ["field", "dtype", "shape", "layout", "more"], fields)
    splits = [
        [name, f"{split.samples:,}", str(len(split.shards)), size(sum(shard.bytes for shard in split.shards))]
        for name, split in found.splits.items()
    ]
    _table("", ["split", "samples", "shards", "size"], splits)
    statistics = [
        [name, field, *(_numbers(values.get(key)) for key in ("min", "max", "mean", "std"))]
        for name, split in found.splits.items()
        for field, values in split.statistics.items()
    ]
    _table("", ["split", "field", "min", "max", "mean", "std"], statistics)
    click.echo(f"recipe id {found.recipe_id}\ncontent digest {found.content_digest}")


def problems(path: Path, found: Sequence[Problem]) -> None:
    """Say that an artifact is sound, or list what is wrong with it."""
    if not found:
        click.echo(f"ok {path}")
    for problem in found:
        click.echo(plain(f"error: {problem}"), err=True)


def size(count: int) -> str:
    """Return a number of bytes with a unit."""
    if count >= 1 << 80:
        return "over 2^80 B"
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def plain(text: str) -> str:
    """Return text from a file with what a terminal would obey spelt out: `\\x1b` for an escape."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


@contextmanager
def progress(quiet: bool, verb: str = "build") -> Iterator[Callback | None]:
    """Lend a progress callback: a bar on a terminal, nothing elsewhere; it appears with the first rows."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    ) as bar:
        tasks: dict[str, Any] = {}

        def update(split: str, done: int, total: int) -> None:
            if split not in tasks:
                tasks[split] = bar.add_task(f"{verb} {split}", total=total)
            bar.update(tasks[split], completed=done, refresh=True)

        yield update


def _plan_rows(plan: Any) -> list[list[str]]:
    rows = [[f"field {item['name']}", f"{item['dtype']} {item['shape']}"] for item in plan["fields"]]
    rows += [
        [f"split {name}", f"{split['samples']:,} samples in {', '.join(split['shards'])}"]
        for name, split in plan["splits"].items()
    ]
    return [*rows, ["bytes", size(plan["bytes"])]]


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Text and no str: "[" is no markup in it.
    table = Table(title=Text(plain(title), "table.title") if title else None, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    Console().print(table)


def _numbers(values: Any) -> str:
    if values is None:
        return ""
    many = values if isinstance(values, (list, tuple)) else [values]
    return " ".join(map(_number, many))


def _number(value: Any) -> str:
    if not isinstance(value, (int, float)):
        return "?"
    try:
        return f"{value:.4g}"
    except OverflowError:
        return "?"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
