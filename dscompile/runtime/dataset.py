"""`CompiledDataset`: a map-style dataset over one split of an artifact."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from dscompile.artifact.fields import Field
from dscompile.artifact.files import check_shards
from dscompile.artifact.manifest import Manifest
from dscompile.artifact.splits import Split
from dscompile.artifact.store import Store
from dscompile.errors import ClosedError, OptionError, UnknownSplitError
from dscompile.formats import format_of
from dscompile.runtime.rows import FieldRows, field_rows

if TYPE_CHECKING:
    from dscompile.runtime.augment import Augmentation
    from dscompile.runtime.loader import Loader


def open_dataset(
    artifact: str | os.PathLike[str],
    split: str | None = None,
    store: str | os.PathLike[str] | None = None,
) -> CompiledDataset:
    """Open one split of an artifact given by path, `NAME` or `NAME@ID-prefix`.

    Without a split the only one is taken, else `train`.

    Raises:
        ArtifactNotFoundError, AmbiguousArtifactError, UnknownSplitError, ManifestError, ShardError.
    """
    path, manifest = Store.at(store).find(artifact)
    if split is None:
        split = next(iter(manifest.splits)) if len(manifest.splits) == 1 else "train"
    return CompiledDataset(path, split, manifest)


class CompiledDataset:
    """The samples of one split, mapped read-only; every sample and batch is a copy the caller owns.

    It pickles as path and split, maps lazily in each process, takes no lock and writes nothing.

    Args:
        path: The artifact's folder.
        split: One of its splits.
        manifest: Its manifest, if it has been read already.

    Raises:
        UnknownSplitError: There is no such split; names those there are.
        ShardError: A shard is missing or has another size.
    """

    def __init__(
        self, path: str | os.PathLike[str], split: str = "train", manifest: Manifest | None = None
    ) -> None:
        self.path = Path(os.path.abspath(path))
        self.split = split
        self.manifest = Manifest.read(self.path) if manifest is None else manifest
        if split not in self.manifest.splits:
            raise UnknownSplitError(
                f"artifact {self.path}",
                f"a split of {', '.join(self.manifest.splits)}",
                repr(split),
                "Name one of them, or build the split.",
            )
        check_shards(self.path, self.manifest)
        self._rows: dict[str, FieldRows] | None = None
        self._process = os.getpid()
        self._closed = False

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of a sample, in its order."""
        return self.manifest.fields

    @property
    def classes(self) -> list[str] | None:
        """Class names in the order of their ids, if the source had them."""
        return next((list(item.classes) for item in self.fields if item.classes is not None), None)

    @property
    def class_to_idx(self) -> dict[str, int] | None:
        """Class name -> id, if the source had class names."""
        return None if self.classes is None else {name: index for index, name in enumerate(self.classes)}

    @property
    def targets(self) -> list[Any]:
        """The labels of all samples as Python numbers: the field `label`, else the last number field.

        Raises:
            AttributeError: A sample has no number field.
        """
        numbers = [item.name for item in self.fields if not item.shape]
        if not numbers:
            raise AttributeError(f"samples of {self.path.parent.name!r} have no label field")
        rows = self.rows()["label" if "label" in numbers else numbers[-1]]
        values: list[Any] = rows.span(0, len(self), torch.empty(len(self), dtype=rows.dtype)).tolist()
        return values

    def __len__(self) -> int:
        return self._split.samples

    def __getitem__(self, index: Any) -> Any:
        """Return one sample in its own structure, or a batch for a slice, a list or a tensor of indices.

        Raises:
            IndexError: An index is outside the split.
            ClosedError: The dataset was closed.
        """
        if isinstance(index, slice):
            chosen = range(len(self))[index]
            return self.batch(torch.arange(len(chosen)) * chosen.step + chosen.start)
        if isinstance(index, (list, tuple)) or getattr(index, "ndim", 0) == 1:
            return self.batch(self._ids(index))
        position = self._position(index)
        rows = self.rows()
        return self.structured(
            {item.name: _plain(rows[item.name].one(position), item) for item in self.fields}
        )

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return many samples, gathered at once; `torch.utils.data.DataLoader` asks for this."""
        ids = self._ids(indices)
        columns = [self._gathered(item, ids).unbind(0) for item in self.fields]
        return [
            self.structured(
                {item.name: _plain(value, item) for item, value in zip(self.fields, values, strict=True)}
            )
            for values in zip(*columns, strict=True)
        ]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def batch(self, ids: torch.Tensor) -> Any:
        """Return the samples `ids` (int64, (N,)) stacked, in the sample's structure, in new memory.

        Pictures are (N, *shape) in the stored dtype; Python numbers become int64, float32 or bool (N,).
        """
        stacked = {}
        for item in self.fields:
            rows = self._gathered(item, ids)
            stacked[item.name] = rows.to(torch.float32) if item.python == "float" else rows
        return self.structured(stacked)

    def loader(
        self,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        device: str | torch.device = "cpu",
        dtype: torch.dtype | str | None = None,
        augment: Iterable[Augmentation[Any]] = (),
    ) -> Loader:
        """Return a loader over this split; see `Loader`."""
        from dscompile.runtime.loader import Loader

        return Loader(
            self,
            batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            device=device,
            dtype=dtype,
            augment=tuple(augment) if isinstance(augment, Iterable) else (augment,),
        )

    def rows(self) -> dict[str, FieldRows]:
        """Return field name -> rows, mapping the shards on first use in this process."""
        if self._closed:
            raise ClosedError(
                f"dataset {self.path}", "an open dataset", "one after close()", "Open it again."
            )
        if self._rows is None or self._process != os.getpid():
            # A forked process maps anew: handles of compressed shards must not be shared.
            self._process = os.getpid()
            container = format_of(self.manifest.container, self.manifest.compression)
            shards = self._split.shards
            mapped = [container.map(self.path / shard.path, shard, self.fields) for shard in shards]
            firsts = [shard.first for shard in shards]
            self._rows = {
                item.name: field_rows(item, firsts, [rows[item.name] for rows in mapped])
                for item in self.fields
            }
        return self._rows

    def structured(self, values: Mapping[str, Any]) -> Any:
        """Return values by field name in the sample's structure: a tuple, a dict, or the one value."""
        if self.manifest.sample == "dict":
            return dict(values)
        return tuple(values.values()) if self.manifest.sample == "tuple" else next(iter(values.values()))

    def close(self) -> None:
        """Drop the mapping; batches that were handed out stay valid."""
        self._rows, self._closed = None, True

    def __enter__(self) -> CompiledDataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[CompiledDataset], tuple[Path, str]]:
        return CompiledDataset, (self.path, self.split)

    def __repr__(self) -> str:
        fields = ", ".join(f"{item.name}: {item.dtype}{list(item.shape)}" for item in self.fields)
        return f"CompiledDataset({self.manifest.name!r}, {self.split!r}, {len(self)} samples, {fields})"

    @property
    def _split(self) -> Split:
        return self.manifest.splits[self.split]

    def _gathered(self, item: Field, ids: torch.Tensor) -> torch.Tensor:
        rows = self.rows()[item.name]
        return rows.gather(ids, torch.empty((len(ids), *item.shape), dtype=rows.dtype))

    def _position(self, index: Any) -> int:
        try:
            position = int(index.__index__())
        except (AttributeError, TypeError) as error:
            raise OptionError(
                f"index of {self!r}", "an integer, a slice or a list of integers", repr(index), "Convert it."
            ) from error
        if not -len(self) <= position < len(self):
            raise IndexError(
                f"index {position} of split {self.split!r}: expected -{len(self)} to {len(self) - 1}"
            )
        return position + len(self) if position < 0 else position

    def _ids(self, indices: Any) -> torch.Tensor:
        ids = torch.as_tensor(indices)
        if ids.numel() == 0:
            ids = ids.to(torch.int64)  # an empty list says nothing of its type
        if ids.dtype == torch.bool or ids.is_floating_point():
            raise OptionError(
                f"indices of {self!r}", "integers", str(ids.dtype), "Use .nonzero() for a mask, or convert."
            )
        ids = ids.to("cpu", torch.int64).reshape(-1)
        if ids.numel():
            self._position(ids.min()), self._position(ids.max())
        return torch.where(ids < 0, ids + len(self), ids)


def _plain(value: torch.Tensor, item: Field) -> Any:
    """Return a row as the sample had it: a tensor of its own, or a Python number."""
    return value if item.python == "tensor" else value.item()
