"""Where samples come from. `resolve` turns what a user gives into a `Source`.

A new kind of source is one file with `claim` and `names`, and one line of the table `_KINDS`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path

from dscompile.errors import UnknownSourceError
from dscompile.sources import objects, specs, synthetic, torchvision
from dscompile.sources.protocol import Samples, Source, SplitData
from dscompile.sources.specs import attribute

__all__ = ["Samples", "Source", "SplitData", "attribute", "known_names", "resolve"]

Claim = Callable[[object, Path, bool], Source | None]

# In this order: a known name wins over a module of the same name.
_KINDS: tuple[tuple[Claim, Callable[[], list[str]]], ...] = (
    (synthetic.claim, synthetic.names),
    (torchvision.claim, torchvision.names),
    (specs.claim, specs.names),
    (objects.claim, objects.names),
)


def known_names() -> list[str]:
    """Return the names that `resolve` knows without the user's help, variants as `emnist:balanced`."""
    return [name for _, names in _KINDS for name in names()]


def resolve(source: object, *, root: Path, check: bool = True) -> Source:
    """Return the source that a user means. Imports neither torch, torchvision nor PIL.

    Args:
        source: `synthetic`, a torchvision name, `package.module:attr`, `file.py:attr`, a map-style dataset, a
            dict of splits, or a `Source`, which is returned as it is.
        root: The folder in which datasets with a name keep their files.
        check: Whether their files must have their published checksums.

    Raises:
        UnknownSourceError: The name is unknown; names the nearest known ones.
        SourceError: The object is not a map-style dataset.
        OptionError: An option after the name is unknown or out of range.
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    for claim, _ in _KINDS:
        found = claim(source, root, check)
        if found is not None:
            return found
    raise _unknown(str(source))


def _unknown(name: str) -> UnknownSourceError:
    known = known_names()
    near = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=3)
    if near:
        cure = f"Did you mean {' or '.join(f'`{one}`' for one in near)}?"
    else:
        cure = (
            "Name a torchvision dataset such as `cifar10`, or `module:attr` or `file.py:attr` for your own."
        )
    return UnknownSourceError("source", "the name of a source", repr(name), cure)
