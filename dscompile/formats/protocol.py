"""What a container owes the compiler and the runtime: four verbs on one shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dscompile.artifact.fields import Field
from dscompile.artifact.splits import Shard

Regions = Mapping[str, tuple[int, int]]
Array = np.ndarray[Any, np.dtype[Any]]


class Rows(Protocol):
    """Rows of a field: a mapped array, or an object that reads rows when asked (compressed containers)."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def __getitem__(self, rows: Any) -> Array:
        """Return rows (N, *shape) for a slice or an int64 array of row numbers."""
        ...


class Format(Protocol):
    """One container. Writer and reader live in one file, so its layout is known in one place.

    Attributes:
        suffix: File suffix of a shard, without the dot.
        most_bytes: Largest shard the container can hold; None if there is no limit.
    """

    suffix: str
    most_bytes: int | None

    def create(self, path: Path, fields: Sequence[Field], samples: int) -> Regions:
        """Lay out an empty shard at `path`.

        Returns:
            Field name -> (byte offset, byte length): where rows are to be written, each field
            contiguous, row-major, little-endian. Any process may write there.
        """
        ...

    def seal(self, path: Path, fields: Sequence[Field], regions: Regions) -> Regions:
        """Finish a shard whose rows are all written, so that others can read it.

        Returns:
            The regions to record: those given, or none where rows cannot be mapped.
        """
        ...

    def check(self, path: Path, shard: Shard, fields: Sequence[Field]) -> None:
        """Check by the container's own index that it holds the fields where the manifest says.

        Reads no rows; may import the container's library.

        Raises:
            ShardError: It is no such container, or holds something else.
        """
        ...

    def map(self, path: Path, shard: Shard, fields: Sequence[Field]) -> dict[str, Rows]:
        """Map a shard read-only, without reading it.

        Returns:
            Field name -> rows (samples, *shape) of the stored numpy type (bfloat16 as uint16): arrays
            that view the mapping and keep it alive, or readers where rows are compressed.

        Raises:
            ShardError: The file is missing, has another size, or begins as another kind of file.
        """
        ...
