"""What one field of a sample is: dtype, shape, layout, value range, normalisation, classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dscompile.artifact.parsing import MOST, count, label, number, text, truth
from dscompile.errors import FieldError

# dtype -> little-endian NumPy type of the stored bytes. NumPy has no bfloat16: its bits are stored as uint16.
STORED_AS: Mapping[str, str] = {
    "bool": "|b1",
    "uint8": "|u1",
    "int8": "|i1",
    "uint16": "<u2",
    "int16": "<i2",
    "uint32": "<u4",
    "int32": "<i4",
    "uint64": "<u8",
    "int64": "<i8",
    "float16": "<f2",
    "bfloat16": "<u2",
    "float32": "<f4",
    "float64": "<f8",
    "complex64": "<c8",
}
KINDS = ("tensor",)
NAME_BYTES = 200  # LMDB allows keys of 511 bytes
FLOAT_DTYPES = ("float16", "bfloat16", "float32", "float64")
PYTHON_TYPES = ("tensor", "int", "float", "bool")
LAYOUTS = ("CHW", "HWC")
MOST_AXES = 31  # HDF5 and NumPy 1 know 32 axes, one of which is that of the rows


@dataclass(frozen=True)
class Normalisation:
    """Per-channel constants of `(x - mean) / std`, x in [0, 1].

    Attributes:
        mean: One float per channel.
        std: One float per channel, each > 0.
        applied: True if the stored values are normalised; False if the loader does it (uint8).
        origin: `dataset` if computed from the training split, `given` if the user chose the constants.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    applied: bool
    origin: str = "given"

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise FieldError(
                "normalisation",
                "as many means as deviations",
                f"{len(self.mean)} means and {len(self.std)} deviations",
                "Give one mean and one deviation per channel.",
            )
        for channel, value in enumerate(self.std):
            if not (math.isfinite(value) and value > 0):
                raise FieldError(
                    f"normalisation, channel {channel}",
                    "a finite deviation > 0",
                    repr(value),
                    "Choose another constant, or drop the constant channel.",
                )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "mean": list(self.mean),
            "std": list(self.std),
            "applied": self.applied,
            "origin": self.origin,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Normalisation:
        """Make one from the data of `to_dict`."""
        mean, std = (tuple(number(value) for value in data[key]) for key in ("mean", "std"))
        return cls(mean, std, truth(data["applied"]), label(data.get("origin", "given")))


@dataclass(frozen=True)
class Field:
    """One named array of a sample.

    Attributes:
        name: Unique in the sample; a dict's key, or a tuple item's name.
        dtype: A key of `STORED_AS`.
        shape: Shape of one sample, without the row axis; () for a number.
        kind: `tensor` (fixed shape).
        python: What a sample gives back: `tensor`, or `int`, `float`, `bool` for Python numbers.
        layout: `CHW` or `HWC` for a picture, else None.
        value_range: (lowest, highest) value before normalisation, for a picture.
        colour: Channel order of a picture: `RGB`, `L` (grey) …
        normalisation: Constants, and whether they are applied, for a picture.
        classes: Class names in the order of their ids, for a label.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: str = "tensor"
    python: str = "tensor"
    layout: str | None = None
    value_range: tuple[float, float] | None = None
    colour: str | None = None
    normalisation: Normalisation | None = None
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        place = f"field {self.name!r}"
        if not _can_be_named(self.name):
            expected = f"a name of at most {NAME_BYTES} bytes in UTF-8, without '/' and NUL, not '.' or '..'"
            raise FieldError(place, expected, repr(self.name), "Rename the field.")
        for key, value, known in (
            ("dtype", self.dtype, tuple(STORED_AS)),
            ("kind", self.kind, KINDS),
            ("python type", self.python, PYTHON_TYPES),
            ("layout", self.layout, (None, *LAYOUTS)),
        ):
            if value not in known:
                listed = ", ".join(str(item) for item in known if item is not None)
                raise FieldError(f"{place}, {key}", f"one of {listed}", repr(value), "Convert the field.")
        if any(size < 0 for size in self.shape):
            raise FieldError(place, "axis sizes >= 0", str(self.shape), "Correct the shape.")

        if len(self.shape) > MOST_AXES:
            got = f"{len(self.shape)} axes"
            raise FieldError(f"{place}, shape", f"at most {MOST_AXES} axes", got, "Flatten the field.")

    @property
    def row_bytes(self) -> int:
        """Bytes of one sample's field."""
        return math.prod(self.shape) * int(STORED_AS[self.dtype][2:])

    @property
    def is_picture(self) -> bool:
        """Whether resizing, normalisation and geometric augmentation concern this field."""
        return self.layout is not None

    @property
    def extent(self) -> int:
        """Bytes of one sample's field if its empty axes had size 1: what array libraries compute with."""
        return math.prod(max(1, size) for size in self.shape) * int(STORED_AS[self.dtype][2:])

    def check(self) -> None:
        """Refuse values that are each of their type and contradict each other.

        Raises:
            FieldError: They do; field and key are named.
        """
        place, axes, norm = f"field {self.name!r}", len(self.shape), self.normalisation
        channels = dict(zip(self.layout or "", self.shape, strict=False)).get("C")
        constants = set() if norm is None else {len(norm.mean), len(norm.std)}
        for key, sound, expected, got in (
            ("shape", self.extent <= MOST, "rows of less than 2**63 bytes", f"{self.extent} bytes"),
            ("python", self.python == "tensor" or not axes, "a tensor where there are axes", self.python),
            ("layout", self.layout is None or axes == 3, "a picture of 3 axes", f"{axes} axes"),
            (
                "normalisation",
                constants <= {channels},
                f"mean and std of {channels} channels",
                f"{constants} constants",
            ),
        ):
            if not sound:
                raise FieldError(f"{place}, {key}", expected, got, "Correct the field.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data, without what is None."""
        data: dict[str, Any] = {
            "name": self.name,
            "kind": self.kind,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "python": self.python,
            "layout": self.layout,
            "value_range": None if self.value_range is None else list(self.value_range),
            "colour": self.colour,
            "normalisation": None if self.normalisation is None else self.normalisation.to_dict(),
            "classes": None if self.classes is None else list(self.classes),
        }
        return {key: value for key, value in data.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Field:
        """Make one from the data of `to_dict`; unknown keys are ignored.

        Raises:
            FieldError: A value is outside what this version knows.
            KeyError, TypeError, ValueError: The data is not of that form.
        """
        optional = ("layout", "value_range", "colour", "normalisation", "classes")
        if absent := [key for key in optional if key in data and data[key] is None]:
            raise TypeError(f"{absent[0]} is null: leave it out")
        span, norm, classes = data.get("value_range"), data.get("normalisation"), data.get("classes")
        return cls(
            name=text(data["name"]),
            dtype=text(data["dtype"]),
            shape=tuple(count(size) for size in data["shape"]),
            kind=text(data["kind"]),
            python=text(data.get("python", "tensor")),
            layout=data.get("layout"),
            value_range=None if span is None else (number(span[0]), number(span[1])),
            colour=None if data.get("colour") is None else label(data["colour"]),
            normalisation=None if norm is None else Normalisation.from_dict(norm),
            classes=None if classes is None else tuple(label(name) for name in classes),
        )


def _can_be_named(name: str) -> bool:
    """Whether every container can hold a field of that name."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return 0 < size <= NAME_BYTES and not {"/", "\x00"} & set(name) and name not in (".", "..")
