"""The embedded dataset: ten shapes, drawn by integer arithmetic, the same pixels on each machine."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dscompile.errors import OptionError, UnknownSplitError
from dscompile.sources.protocol import SplitData
from dscompile.sources.synthetic_shapes import CLASSES, VERSION, labels, pictures

if TYPE_CHECKING:
    from PIL import Image

DEFAULTS = {"train": 5000, "test": 1000, "size": 32}
_LIMITS = {"train": (1, 2**31), "test": (1, 2**31), "size": (8, 1024)}
# A split above this is drawn sample by sample, so that memory stays bounded.
_ARRAY_BYTES = 1 << 30


def names() -> list[str]:
    """Return the names that `claim` knows."""
    return ["synthetic"]


def claim(source: object, root: Path, check: bool) -> SyntheticSource | None:
    """Return the source that `synthetic` or `synthetic:train=5000,size=32` stands for, None for other things.

    Raises:
        OptionError: An option is unknown, is no whole number, is out of range or is given twice.
    """
    if not isinstance(source, str):
        return None
    name, _, text = source.partition(":")
    return SyntheticSource(**_options(text)) if name == "synthetic" else None


def _options(text: str) -> dict[str, int]:
    given: dict[str, int] = {}
    for item in text.split(",") if text else []:
        name, _, value = item.partition("=")
        if name in given:
            raise OptionError(f"synthetic: option {name}", "one value", "two", "Give it once.")
        if name not in DEFAULTS:
            near = difflib.get_close_matches(name, DEFAULTS, n=1)
            cure = (
                f"Did you mean `{near[0]}`?" if near else "Write for example `synthetic:train=5000,size=32`."
            )
            raise OptionError(
                f"synthetic: option {name!r}", f"one of {', '.join(DEFAULTS)}", repr(item), cure
            )
        if not (value.isascii() and value.isdecimal()):
            raise OptionError(
                f"synthetic: option {name}",
                "a whole number",
                repr(value),
                f"Write for example `{name}={DEFAULTS[name]}`.",
            )
        given[name] = int(value)
    return given


class SyntheticSource:
    """Splits `train` and `test` of pictures of ten shapes.

    Args:
        train: Number of training samples, at least 1.
        test: Number of test samples, at least 1. Neither number changes any sample of the
            other split or an earlier sample of its own.
        size: Height and width in pixels, 8 … 1024.

    Raises:
        OptionError: A value is out of range.
    """

    name = "synthetic"
    splits = ("train", "test")
    declared = True

    def __init__(self, train: int = 5000, test: int = 1000, size: int = 32) -> None:
        self.options = {"train": train, "test": test, "size": size}
        for option, value in self.options.items():
            low, high = _LIMITS[option]
            if not low <= value <= high:
                raise OptionError(
                    f"synthetic: option {option}",
                    f"{low} … {high}",
                    str(value),
                    f"The default is {DEFAULTS[option]}.",
                )

    def prepare(self, splits: Iterable[str] | None = None) -> None:
        """Do nothing: the samples are computed."""

    def files(self, splits: Iterable[str] | None = None) -> dict[str, Path]:
        """Return no file: the samples are computed."""
        return {}

    def identity(self) -> dict[str, Any]:
        """Return the version of the algorithm and the options, which determine every pixel."""
        return {"kind": "synthetic", "version": VERSION, **self.options}

    def notes(self) -> dict[str, Any]:
        """Return that there are no checksums to check."""
        return {"published_checksums": "none published"}

    def open(self, split: str) -> SplitData:
        """Open `train` or `test`; arrays are left out for splits above 1 GiB."""
        if split not in self.splits:
            raise UnknownSplitError(
                "synthetic", f"one of its splits {', '.join(self.splits)}", repr(split), "Choose one."
            )
        samples = SyntheticSamples(split, self.options[split], self.options["size"])
        small = 3 * len(samples) * samples.size**2 <= _ARRAY_BYTES
        return SplitData(samples, samples.arrays() if small else None, ("image", "label"), CLASSES)


class SyntheticSamples:
    """The samples of one split, each drawn when it is asked for: (PIL picture in RGB, int label)."""

    def __init__(self, split: str, count: int, size: int) -> None:
        self.split, self.count, self.size = split, count, size

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the ten classes in the order of their ids."""
        return CLASSES

    def __len__(self) -> int:
        """Return the number of samples."""
        return self.count

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        """Return picture and label of one index, negative ones counting from the end."""
        from PIL import Image

        position = index + self.count if index < 0 else index
        if not 0 <= position < self.count:
            raise IndexError(f"synthetic, split {self.split}: index {index} of {self.count} samples")
        one = np.array([position])
        return Image.fromarray(pictures(self.split, one, self.size)[0]), int(labels(self.split, one)[0])

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return all samples: "image" uint8 (N, size, size, 3) in 0 … 255, "label" int64 (N,) in 0 … 9."""
        every = np.arange(self.count)
        return {"image": pictures(self.split, every, self.size), "label": labels(self.split, every)}
