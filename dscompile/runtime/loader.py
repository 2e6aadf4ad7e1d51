"""`Loader`: order, gather, augmentation, dtype, device; no worker processes and no threads."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

from dscompile.artifact.fields import Field
from dscompile.errors import DeviceError, OptionError
from dscompile.runtime.buffers import Buffers
from dscompile.runtime.order import order
from dscompile.runtime.rows import FieldRows
from dscompile.runtime.values import batch_dtype, convert

if TYPE_CHECKING:
    from dscompile.runtime.augment import Augmentation


class Readable(Protocol):
    """What a loader asks of a split; `CompiledDataset` gives it."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of a sample, in its order."""
        ...

    @property
    def classes(self) -> list[str] | None:
        """Class names in the order of their ids, if there are any."""
        ...

    @property
    def targets(self) -> list[Any]:
        """The labels of all samples."""
        ...

    def __len__(self) -> int: ...

    def rows(self) -> Mapping[str, FieldRows]:
        """Return field name -> rows."""
        ...

    def structured(self, values: Mapping[str, Any]) -> Any:
        """Return values by field name in the sample's structure."""
        ...


class _Column(NamedTuple):
    """What is decided once per field: dtype of its batches, and what augments (batch, ids, epoch)."""

    field: Field
    dtype: torch.dtype
    augmented: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor] | None


class Loader:
    """Yields the batches of an epoch in the sample's structure; each `iter()` is the next epoch.

    A batch is the caller's for as long as anything of it is held; its memory is used again afterwards.

    Args:
        dataset: The split.
        batch_size: Samples per batch; the last batch of an epoch may be smaller.
        shuffle: Draw a new order for each epoch, a pure function of (seed, epoch).
        seed: Decides order and augmentation.
        drop_last: Leave a smaller last batch out.
        device: Where batches are put.
        dtype: dtype of pictures and float tensors, as torch dtype or by name; None for the stored one.
        augment: Augmentations of the pictures, applied in order, drawn anew for each (epoch, sample).

    Raises:
        OptionError: An option is out of range, or does not suit the fields.
        DeviceError: The device is not there.
    """

    def __init__(
        self,
        dataset: Readable,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        device: str | torch.device = "cpu",
        dtype: torch.dtype | str | None = None,
        augment: tuple[Augmentation[Any], ...] = (),
    ) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise OptionError(
                "option batch_size", "a whole number >= 1", repr(batch_size), "Give at least 1."
            )
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0
        self.device = _device(device)
        self._columns = _columns(dataset.fields, _dtype(dtype), augment, seed)
        self._buffers = Buffers()
        if len(self) == 0:
            warnings.warn(
                f"batch_size {batch_size} with drop_last leaves no batch of {len(dataset)} samples",
                stacklevel=3,
            )

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        full, rest = divmod(len(self.dataset), self.batch_size)
        return full + (1 if rest and not self.drop_last else 0)

    def set_epoch(self, epoch: int) -> None:
        """Make the next `iter()` the given epoch. Never needed: epochs count by themselves."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return self._epoch(epoch)

    def _epoch(self, epoch: int) -> Iterator[Any]:
        positions = order(len(self.dataset), self.seed, epoch, self.shuffle)
        stop = len(self) * self.batch_size
        for start in range(0, stop, self.batch_size):
            end = min(start + self.batch_size, positions.length)
            yield self._batch(positions.slice(start, end), start, end, epoch)

    def _batch(self, ids: torch.Tensor, start: int, end: int, epoch: int) -> Any:
        rows = self.dataset.rows()
        values = {}
        for column in self._columns:
            source = rows[column.field.name]
            out = self._buffers.lend((len(ids), *column.field.shape), source.dtype)
            batch = source.gather(ids, out) if self.shuffle else source.span(start, end, out)
            # The copy to a device ends before this returns, so the buffer is free for the next batch.
            batch = batch.to(self.device)
            if column.augmented is not None:
                batch = column.augmented(batch, ids, epoch)
            values[column.field.name] = convert(batch, column.field, column.dtype, self._buffers)
        return self.dataset.structured(values)


def _columns(
    fields: tuple[Field, ...], dtype: torch.dtype | None, augment: tuple[Augmentation[Any], ...], seed: int
) -> list[_Column]:
    for step in augment:
        if not (callable(getattr(step, "draw", None)) and callable(getattr(step, "apply", None))):
            raise OptionError(
                "option augment",
                "a list of augmentations of dscompile.augment",
                repr(step),
                "Use e.g. [dscompile.augment.RandomHorizontalFlip()].",
            )
    pictures = [field for field in fields if field.layout == "CHW"]
    if augment and not pictures:
        raise OptionError(
            "option augment",
            "a picture field of layout CHW",
            ", ".join(f"{field.name} {field.shape} {field.layout or ''}".strip() for field in fields),
            "Build with --layout CHW, or augment the batches yourself.",
        )
    return [
        _Column(
            field,
            batch_dtype(field, dtype),
            _augmenter(field, augment, seed) if augment and field in pictures else None,
        )
        for field in fields
    ]


def _augmenter(
    field: Field, augment: tuple[Augmentation[Any], ...], seed: int
) -> Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]:
    # Imported here: a loader without augmentations starts 4 ms earlier.
    from dscompile.runtime.augment import PixelMap, apply_all

    pixels = PixelMap.of(field)

    def augmented(batch: torch.Tensor, ids: torch.Tensor, epoch: int) -> torch.Tensor:
        return apply_all(batch, ids, augment, seed=seed, epoch=epoch, pixels=pixels)

    return augmented


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and not isinstance(found, torch.dtype):
        raise OptionError("option dtype", "a torch dtype", repr(dtype), "Give e.g. torch.float16.")
    return found


def _device(device: str | torch.device) -> torch.device:
    """Return the device, refusing one this machine does not have; a CPU device initialises no CUDA."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise DeviceError(
            "option device", "a device name of torch", repr(device), "Give e.g. 'cuda'."
        ) from error
    if found.type == "cuda":
        count = torch.cuda.device_count()
        if (found.index or 0) >= count:
            raise DeviceError(
                f"device {str(found)!r}",
                "a device of this machine",
                f"{count} CUDA devices",
                "Use device='cpu', or check the driver.",
            )
    elif found.type != "cpu":
        _probe(found)
    return found


def _probe(device: torch.device) -> None:
    """Refuse a device that cannot hold a batch here; `meta` has no memory at all."""
    try:
        if device.type != "meta":
            torch.empty(1, device=device)
            return
        reason = "a device without memory"
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
    raise DeviceError(f"device {str(device)!r}", "a device of this machine", reason, "Use device='cpu'.")
