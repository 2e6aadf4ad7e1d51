"""The state of objects and folders: what an identity is taken of."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any


def files_below(folder: Path) -> list[Path]:
    """Return all files below a folder, through links too, but into no folder twice."""
    found: list[Path] = []
    seen: set[str] = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if os.path.realpath(os.path.join(place, name)) not in seen]
        seen.update(os.path.realpath(os.path.join(place, name)) for name in folders)
        found.extend(Path(place, name) for name in files)
    return sorted(file for file in found if file.is_file())


def _hidden(kind: type) -> bool:
    """Whether objects of a class hold state in C that their attributes do not show."""
    for base in kind.__mro__[:-1]:
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        in_python = base.__module__ == "__main__" or (file is not None and file.endswith((".py", ".pyc")))
        if not in_python and base is not types.SimpleNamespace:
            return base.__module__ in sys.modules
    return False


def has_state(value: Any) -> bool:
    """Whether an object shows all its state as attributes: no iterator, handle or state kept in C."""
    if _hidden(type(value)):
        return False
    if hasattr(type(value), "__next__") or hasattr(value, "fileno") or isinstance(value, types.CodeType):
        return False
    return hasattr(value, "__dict__") or hasattr(type(value), "__slots__")


def state_of(value: Any) -> list[tuple[str, Any]]:
    """Return (name, value) of every attribute and slot of an object, sorted."""
    names: list[str] = []
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            names.append(f"_{kind.__name__.lstrip('_')}{name}" if private else name)
    state = {name: getattr(value, name) for name in names if hasattr(value, name)}
    state.pop("__dict__", None)
    state.pop("__weakref__", None)
    return sorted({**state, **getattr(value, "__dict__", {})}.items())
