"""dscompile: compile a dataset once, and every later run starts at once.

The front door does no work: names are resolved when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dscompile.version import __version__

if TYPE_CHECKING:
    from dscompile.api import Artifact, build, compile, convert, open
    from dscompile.errors import DscompileError
    from dscompile.runtime import augment
    from dscompile.runtime.dataset import CompiledDataset
    from dscompile.runtime.loader import Loader

_HOME = {
    "Artifact": "dscompile.api",
    "CompiledDataset": "dscompile.runtime.dataset",
    "DscompileError": "dscompile.errors",
    "Loader": "dscompile.runtime.loader",
    "augment": "dscompile.runtime",
    "build": "dscompile.api",
    "compile": "dscompile.api",
    "convert": "dscompile.api",
    "open": "dscompile.api",
}

__all__ = [
    "Artifact",
    "CompiledDataset",
    "DscompileError",
    "Loader",
    "__version__",
    "augment",
    "build",
    "compile",
    "convert",
    "open",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dscompile' has no attribute {name!r}")
    home = import_module(_HOME[name])
    value = import_module(f"{_HOME[name]}.{name}") if name == "augment" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
