"""Plain rows, one field after another: what a build stages before it converts or compresses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dscompile.artifact.fields import Field
from dscompile.artifact.splits import Shard
from dscompile.formats.mapping import map_regions
from dscompile.formats.protocol import Regions, Rows
from dscompile.formats.room import room_for

ALIGNMENT = 64


class Plain:
    """A file of rows without a container around them."""

    suffix: str = "rows"
    most_bytes: int | None = None

    def create(self, path: Path, fields: Sequence[Field], samples: int) -> Regions:
        """Lay out the fields one after another, each aligned to 64 bytes."""
        regions, end = {}, 0
        for item in fields:
            regions[item.name] = (end, item.row_bytes * samples)
            end += -(-item.row_bytes * samples // ALIGNMENT) * ALIGNMENT
        with room_for(path, end), path.open("xb") as file:
            file.truncate(end)
        return regions

    def seal(self, path: Path, fields: Sequence[Field], regions: Regions) -> Regions:
        """Return the regions: nothing is left to do."""
        return regions

    def check(self, path: Path, shard: Shard, fields: Sequence[Field]) -> None:
        """Check nothing: there is no container."""

    def map(self, path: Path, shard: Shard, fields: Sequence[Field]) -> dict[str, Rows]:
        """Map the rows."""
        return dict(map_regions(path, shard, fields))
