"""From stored numbers to the dtype a batch is asked in, by the compiler's own arithmetic."""

from __future__ import annotations

import torch

from dscompile.artifact.fields import Field
from dscompile.errors import OptionError
from dscompile.runtime.buffers import Buffers


def batch_dtype(field: Field, dtype: torch.dtype | None) -> torch.dtype:
    """Return the dtype of a field's batches.

    Args:
        field: The field as stored.
        dtype: What the user asked for; None for the stored dtype. It concerns pictures and float tensors.

    Returns:
        Python numbers become int64, float32 or bool tensors; other fields keep their dtype.

    Raises:
        OptionError: Normalised pictures were asked for as integers.
    """
    stored: torch.dtype = getattr(torch, field.dtype)
    if field.python != "tensor":
        return torch.float32 if field.python == "float" else stored
    if dtype is None or dtype == stored or not (field.is_picture or stored.is_floating_point):
        return stored
    if not dtype.is_floating_point:
        raise OptionError(
            f"option dtype, field {field.name!r}",
            "a float dtype",
            str(dtype),
            f"The artifact stores {field.dtype}; leave dtype out, or build with --dtype uint8.",
        )
    return dtype


def convert(batch: torch.Tensor, field: Field, dtype: torch.dtype, buffers: Buffers) -> torch.Tensor:
    """Return a batch in `dtype`: stored bytes become what a float artifact of the same recipe would hold.

    Bytes are divided by 255 and then normalised in float32, one rounding per operation as in torchvision's
    `ToTensor` and `Normalize`, and rounded once more for a narrower dtype.

    Args:
        batch: (N, *shape) in the stored dtype, on any device.
        field: The field; its layout says where the channels are.
        dtype: As `batch_dtype` allows.
        buffers: Where new CPU memory comes from.
    """
    if batch.dtype == dtype:
        return batch
    if field.value_range != (0.0, 255.0) or not field.is_picture:
        return _empty_like(batch, dtype, buffers).copy_(batch)
    values = _empty_like(batch, torch.float32, buffers).copy_(batch)
    values.div_(255)
    norm = field.normalisation
    if norm is not None and not norm.applied:
        shape = (-1, 1, 1) if field.layout == "CHW" else (-1,)
        mean, std = (
            torch.tensor(part, dtype=torch.float32, device=batch.device).view(shape)
            for part in (norm.mean, norm.std)
        )
        values.sub_(mean).div_(std)
    return values if dtype == torch.float32 else _empty_like(batch, dtype, buffers).copy_(values)


def _empty_like(batch: torch.Tensor, dtype: torch.dtype, buffers: Buffers) -> torch.Tensor:
    if batch.device.type != "cpu":
        return torch.empty_like(batch, dtype=dtype)
    return buffers.lend(tuple(batch.shape), dtype)
