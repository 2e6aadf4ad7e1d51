"""Option types of the command line: sizes with units, and normalisation constants."""

from __future__ import annotations

import re
from typing import Any

import click

_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}B": size for unit, size in list(_UNITS.items()) if unit in "KMGT" and unit}
_UNITS |= {f"{unit}IB": 1024 ** (power + 1) for power, unit in enumerate("KMGT")}


class Size(click.ParamType[Any]):
    """A number of bytes with an optional unit: 1GiB, 500MB, 4096."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(value))
        unit = None if match is None else _UNITS.get(match[2].upper())
        if match is None or unit is None or float(match[1]) * unit < 1:
            self.fail(f"{value!r} is not a size such as 1GiB, 500MB or 4096", param, ctx)
        return int(float(match[1]) * unit)


class Constants(click.ParamType[Any]):
    """`dataset`, `none`, `imagenet`, or MEANS/STDS, one number per channel, as 0.5,0.5,0.5/0.2,0.2,0.2."""

    name = "dataset|none|imagenet|means/stds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word, or (means, deviations)."""
        if not isinstance(value, str) or value in ("dataset", "none", "imagenet"):
            return value
        try:
            means, deviations = value.split("/")
            return tuple(tuple(float(item) for item in part.split(",")) for part in (means, deviations))
        except ValueError:
            self.fail(
                f"{value!r} is not dataset, none, imagenet or means/deviations such as 0.5/0.2", param, ctx
            )


SIZE, CONSTANTS = Size(), Constants()
