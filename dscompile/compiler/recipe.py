"""Options as the user gives them, and the recipe: all that determines the shard bytes, as pure data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dscompile.artifact.fields import FLOAT_DTYPES, LAYOUTS
from dscompile.artifact.hashing import digest_of
from dscompile.artifact.manifest import CONTAINERS
from dscompile.errors import OptionError

PICTURE_DTYPES = ("float32", "float16", "bfloat16", "uint8")
Constants = tuple[tuple[float, ...], tuple[float, ...]]
# Means and deviations of ImageNet's training pictures on [0, 1], as torchvision's models expect them.
IMAGENET: Constants = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
# Raised when the same recipe would give other bytes than before.
SEMANTICS = 1
# The smallest normal float32: deviations are float32, and below it they lose digits or become 0.
TINY = 2.0**-126


@dataclass(frozen=True)
class Options:
    """What the user asked of a build; None leaves the choice to the kind of source. Validates itself.

    Attributes:
        format: Container of the shards.
        compression: A filter of h5py for `hdf5`; rows are then read through h5py, not mapped.
        dtype: dtype of picture fields.
        layout: `CHW` or `HWC` of picture fields.
        normalize: `dataset`, `none`, `imagenet`, or (means, deviations) on [0, 1], one per channel.
        resize: Length in pixels of the shorter side after resizing (bilinear, Pillow).
        crop: Side in pixels of the centre crop after resizing.
        splits: Which splits; None for all.
        limit: Only the first so many samples of each split.
        shard_bytes: Size at which a split is cut into several shards.
        allow_nonfinite: Accept NaN and infinity in float fields.
        version: The user's own version of code that dscompile cannot see through.
        transform: A callable for the picture, applied to what the source yields.
    """

    format: str = "pt"
    compression: str | None = None
    dtype: str | None = None
    layout: str | None = None
    normalize: str | Constants | None = None
    resize: int | None = None
    crop: int | None = None
    splits: tuple[str, ...] | None = None
    limit: int | None = None
    shard_bytes: int = 1 << 30
    allow_nonfinite: bool = False
    version: str | None = None
    transform: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        _one_of("format", self.format, CONTAINERS)
        _one_of("dtype", self.dtype, (None, *PICTURE_DTYPES))
        _one_of("layout", self.layout, (None, *LAYOUTS))
        if self.splits == ():
            raise OptionError("option split", "at least one split", "none", "Leave it out for all splits.")
        for name in ("resize", "crop", "limit", "shard_bytes"):
            at_least_one(name, getattr(self, name))
        if isinstance(self.normalize, str):
            _one_of("normalize", self.normalize, ("dataset", "none", "imagenet"))
        elif self.normalize is not None:
            object.__setattr__(self, "normalize", _checked(self.normalize))

    @property
    def constants(self) -> str | Constants | None:
        """`dataset`, `none`, None, or the means and deviations that `normalize` stands for."""
        return IMAGENET if self.normalize == "imagenet" else self.normalize

    def with_defaults(self, *, declared: bool) -> Options:
        """Return the options with dtype and normalisation settled.

        Declared sources become float32 normalised by the data set's own statistics; a user's own
        dataset is compiled as it yields, and becomes float32 if only a normalisation is asked for.
        """
        normalize = self.normalize if self.normalize is not None else ("dataset" if declared else "none")
        dtype = self.dtype
        if dtype is None and (declared or normalize != "none"):
            dtype = "float32"
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Options(**{**values, "dtype": dtype, "normalize": normalize})


@dataclass(frozen=True)
class Recipe:
    """Source, steps and output options in canonical form; equal recipes have equal ids.

    Attributes:
        source: Identity of the source, with the digest of its files.
        steps: The deterministic steps in order, each {step, parameters}.
        output: Container, shard size and what is accepted.
    """

    source: Mapping[str, Any]
    steps: tuple[Mapping[str, Any], ...]
    output: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """SHA-256 (64 hex digits) of the canonical JSON."""
        return digest_of(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "semantics": SEMANTICS,
            "source": dict(self.source),
            "steps": [dict(step) for step in self.steps],
            "output": dict(self.output),
        }

    @classmethod
    def of(
        cls,
        identity: Mapping[str, Any],
        files: Sequence[Mapping[str, Any]],
        splits: Sequence[str],
        options: Options,
        transform: Mapping[str, Any] | None = None,
    ) -> Recipe:
        """Make the recipe of settled options over a source.

        Args:
            identity: What the source says it is.
            files: Its files: path, size, sha256.
            splits: The splits to build.
            options: Options after `with_defaults`.
            transform: Identity of the user's own transform.
        """
        source = {**identity, "splits": list(splits), "limit": options.limit}
        if files:
            source["files"] = digest_of([[file["path"], file["sha256"]] for file in files])
        if options.version is not None:
            source["user_version"] = options.version
        constants = options.constants
        if isinstance(constants, tuple):
            constants = {"mean": list(constants[0]), "std": list(constants[1])}  # type: ignore[assignment]
        steps = [
            {"step": "decode"},
            transform and {"step": "transform", **transform},
            options.resize and {"step": "resize", "size": options.resize, "interpolation": "bilinear"},
            options.crop and {"step": "crop", "size": options.crop},
            {"step": "convert", "dtype": options.dtype},
            {"step": "normalize", "constants": constants},
            {"step": "layout", "layout": options.layout or "CHW"},
        ]
        output = {
            "container": options.format,
            "shard_bytes": options.shard_bytes,
            "allow_nonfinite": options.allow_nonfinite,
        }
        if options.compression is not None:
            output["compression"] = options.compression
        return cls(source, tuple(step for step in steps if step), output)


def _one_of(name: str, value: str | None, known: Sequence[str | None]) -> None:
    if value not in known:
        listed = ", ".join(str(item) for item in known if item is not None)
        raise OptionError(f"option {name}", f"one of {listed}", repr(value), "Choose one of them.")


def at_least_one(name: str, value: int | None) -> None:
    """Refuse a value of an option that is given and is no whole number from 1."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise OptionError(f"option {name}", "a whole number >= 1", repr(value), "Give a larger number.")


def _checked(constants: Any) -> Constants:
    """Return means and deviations as tuples of floats, refusing what cannot be meant for [0, 1]."""
    try:
        mean, std = (tuple(float(value) for value in part) for part in constants)
    except (TypeError, ValueError) as error:
        raise OptionError(
            "option normalize",
            "'dataset', 'none', 'imagenet' or (means, deviations)",
            repr(constants),
            "Give one mean and one deviation per channel, e.g. ((0.5,), (0.5,)).",
        ) from error
    if len(mean) != len(std) or not mean:
        raise OptionError(
            "option normalize",
            "as many deviations as means, at least one",
            f"{len(mean)} means and {len(std)} deviations",
            "Give one of each per channel.",
        )
    for channel, (middle, width) in enumerate(zip(mean, std, strict=True)):
        place = f"option normalize, channel {channel}"
        if not TINY <= width < math.inf:
            raise OptionError(
                place, "a finite deviation > 0 in float32", repr(width), "Choose another constant."
            )
        if not -1 <= middle <= 1:
            raise OptionError(
                place,
                "a mean on the scale [0, 1]",
                repr(middle),
                "Constants on the 0-255 scale must be divided by 255.",
            )
    return mean, std


def is_float(dtype: str | None) -> bool:
    """Whether pixels of that dtype are stored on [0, 1], normalised, rather than as bytes."""
    return dtype in FLOAT_DTYPES
