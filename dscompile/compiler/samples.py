"""From what a dataset yields to named values, and from a value to the row that is stored."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dscompile.artifact.fields import STORED_AS, Field
from dscompile.errors import DscompileError, FieldError, SampleError, SourceError
from dscompile.sources.protocol import Samples

Array = np.ndarray[Any, np.dtype[Any]]
# Pillow modes whose bands are bytes, as np.asarray gives them.
BYTE_MODES = ("L", "RGB", "RGBA", "CMYK", "LA", "YCbCr", "HSV", "LAB")
PICTURE_CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class Layout:
    """The structure of a sample: `tuple`, `dict` or `single`, and the names of its items."""

    structure: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, sample: Any, names: Sequence[str] | None, place: str) -> Layout:
        """Return the layout of a sample; `names` overrides the names of a tuple's items.

        Raises:
            FieldError: A tuple or dict is empty, or a key of a dict is not text.
        """
        if isinstance(sample, (Mapping, tuple, list)) and not sample:
            raise FieldError(place, "at least one field", f"an empty {type(sample).__name__}", "Yield one.")
        if isinstance(sample, Mapping):
            for key in sample:
                if not isinstance(key, str):
                    raise FieldError(place, "field names as text", repr(key), "Rename the field.")
            return cls("dict", tuple(sample))
        if isinstance(sample, (tuple, list)):
            if names is None or len(names) != len(sample):
                names = _tuple_names(sample)
            return cls("tuple", tuple(names))
        return cls("single", tuple(names[:1]) if names else ("image",) if _is_picture(sample) else ("value",))

    def values(self, sample: Any, place: str) -> dict[str, Any]:
        """Return name -> value of a sample that must have this layout.

        Raises:
            SampleError: The sample has other items than the first one.
        """
        if self.structure == "single":
            return {self.names[0]: sample}
        found: dict[str, Any] = {}
        if self.structure == "dict" and isinstance(sample, Mapping):
            found = dict(sample)
        elif self.structure == "tuple" and isinstance(sample, (tuple, list)):
            found = dict(zip(self.names, sample, strict=False)) if len(sample) == len(self.names) else {}
        if set(found) != set(self.names):
            got = f"a {type(sample).__name__}" + (
                f" with {list(sample)}" if isinstance(sample, Mapping) else ""
            )
            raise SampleError(
                place, f"a {self.structure} of {', '.join(self.names)}", got, "Yield equal structures."
            )
        return found


def length_of(samples: Samples) -> int:
    """Return the number of samples.

    Raises:
        SourceError: The dataset's `__len__` does not give one.
    """
    try:
        return len(samples)
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"{type(samples).__name__}.__len__",
            "a whole number >= 0",
            f"{type(error).__name__}: {error}",
            "Correct the dataset.",
        ) from error


def read(samples: Samples, index: int, place: str) -> Any:
    """Return one sample of a dataset.

    Raises:
        SampleError: The user's code raised; its own errors of dscompile pass.
    """
    try:
        return samples[index]
    except DscompileError:
        raise
    except Exception as error:  # a user's dataset may raise anything; it is passed on with its sample
        raise SampleError(
            place, "a sample that can be read", f"{type(error).__name__}: {error}", "Correct or remove it."
        ) from error


def transformed(
    layout: Layout, sample: Any, transform: Callable[[Any], Any] | None, place: str
) -> dict[str, Any]:
    """Return name -> value of a sample, the first one after the user's transform.

    Raises:
        SampleError: The sample has another layout, or the transform raised.
    """
    values = layout.values(sample, place)
    if transform is not None:
        name = layout.names[0]
        try:
            values[name] = transform(values[name])
        except DscompileError:
            raise
        except Exception as error:  # as for a dataset
            raise SampleError(
                f"{place}, field {name!r}",
                "a value that the transform accepts",
                f"{type(error).__name__}: {error}",
                "Correct the transform.",
            ) from error
    return values


def _tuple_names(sample: Sequence[Any]) -> tuple[str, ...]:
    if len(sample) == 2 and _is_picture(sample[0]) and _is_number(sample[1]):
        return ("image", "label")
    return tuple(f"field{position}" for position in range(len(sample)))


def _is_picture(value: Any) -> bool:
    return is_pillow(value) or (_is_torch(value) and value.ndim == 3) or getattr(value, "ndim", 0) == 3


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic)) or getattr(value, "ndim", None) == 0


def is_pillow(value: Any) -> bool:
    """Whether a value is a Pillow image; imports nothing."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def field_of(name: str, value: Any, place: str, classes: tuple[str, ...] | None = None) -> Field:
    """Return the field that stores a value as it is: a picture as uint8 (C, H, W).

    Raises:
        FieldError: The value's type cannot be stored; names field and sample.
    """
    if isinstance(value, (bool, np.bool_)):
        return Field(name, "bool", (), python="bool")
    if isinstance(value, (int, np.integer)):
        return Field(name, "int64", (), python="int", classes=classes)
    if isinstance(value, (float, np.float16, np.float32, np.float64)):
        return Field(name, "float64", (), python="float")
    if is_pillow(value):
        pixels = pixels_of(value, name, place)
        channels = 1 if pixels.ndim == 2 else pixels.shape[2]
        shape = (channels, *pixels.shape[:2])
        return Field(name, "uint8", shape, layout="CHW", value_range=(0.0, 255.0), colour=value.mode)
    if _is_torch(value) or isinstance(value, np.ndarray):
        return _array_field(name, value, place)
    raise FieldError(
        f"{place}, field {name!r}",
        "a picture, an array, a tensor or a number",
        f"{type(value).__name__}: {value!r:.60}",
        "Yield one of these, or leave the item out.",
    )


def _array_field(name: str, value: Any, place: str) -> Field:
    if not has_bytes(value) or isinstance(value, np.ma.MaskedArray):
        raise FieldError(
            f"{place}, field {name!r}", "a dense array with data", f"{value!r:.60}", "Convert the field."
        )
    shape = tuple(int(size) for size in value.shape)
    dtype = str(value.dtype).removeprefix("torch.") if _is_torch(value) else value.dtype.name
    if dtype not in STORED_AS:
        raise FieldError(
            f"{place}, field {name!r}", f"a dtype of {', '.join(STORED_AS)}", dtype, "Convert the field."
        )
    # torch's pictures are (C, H, W); a NumPy array of three axes says nothing about which is which.
    picture = _is_torch(value) and len(shape) == 3 and shape[0] in PICTURE_CHANNELS
    return Field(
        name,
        dtype,
        shape,
        layout="CHW" if picture else None,
        value_range=(0.0, 255.0) if picture and dtype == "uint8" else None,
    )


def pixels_of(value: Any, name: str, place: str) -> Array:
    """Return a picture's bytes, uint8 (H, W) or (H, W, C), of a Pillow image or a uint8 (C, H, W) tensor.

    Raises:
        FieldError: The image's mode has no bytes per band.
    """
    if not is_pillow(value):
        return np.moveaxis(array_of(value), 0, -1)
    if 0 in value.size:
        raise FieldError(
            f"{place}, field {name!r}", "a picture with pixels", f"size {value.size}", "Skip it."
        )
    if value.mode not in BYTE_MODES:
        raise FieldError(
            f"{place}, field {name!r}",
            f"a picture of mode {', '.join(BYTE_MODES)}",
            f"mode {value.mode}",
            "Convert it in the dataset, e.g. with image.convert('RGB').",
        )
    return np.asarray(value)


def has_bytes(value: Any) -> bool:
    """Whether an array, tensor or number holds its values as plain memory: not sparse, meta or of objects."""
    if _is_torch(value):
        return str(value.layout) == "torch.strided" and not value.is_meta and not value.is_quantized
    return not np.asarray(value).dtype.hasobject


def array_of(value: Any) -> Array:
    """Return an array, tensor or number as a numpy array; bfloat16 as the uint16 of its bits."""
    if not _is_torch(value):
        return np.asarray(value)
    import torch

    plain = value.detach().cpu().resolve_conj().resolve_neg()
    plain = plain.as_subclass(torch.Tensor)
    array: Array = (plain.view(torch.uint16) if plain.dtype == torch.bfloat16 else plain).numpy()
    return array


def row_of(value: Any, field: Field, place: str) -> Array:
    """Return a value as one row of a field that is stored as it is.

    Raises:
        SampleError: dtype or shape differ from the field's.
    """
    found = field_of(field.name, value, place)
    if (found.dtype, found.shape, found.python) != (field.dtype, field.shape, field.python):
        raise SampleError(
            f"{place}, field {field.name!r}",
            f"{field.dtype} {field.shape} as in the first sample",
            f"{found.dtype} {found.shape}",
            "Make all samples alike, e.g. with --resize and --crop for pictures.",
        )
    try:
        if field.python == "int":
            return np.asarray(int(value), STORED_AS[field.dtype])  # from Python's int it raises, not wraps
        return array_of(value).astype(STORED_AS[field.dtype], copy=False)
    except OverflowError as error:
        raise SampleError(
            f"{place}, field {field.name!r}",
            f"a number that fits {field.dtype}",
            f"{value!r:.60}",
            "Clip it.",
        ) from error
