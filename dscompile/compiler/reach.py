"""What a function of the user reaches: the globals it names and the modules it imports when it runs."""

from __future__ import annotations

import dis
import importlib
import importlib.util
import os
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from typing import Any

_LIBRARIES = tuple(
    os.path.realpath(sysconfig.get_paths()[key]) for key in ("stdlib", "platstdlib", "purelib", "platlib")
)


def is_users(code: Any) -> bool:
    """Whether code is the user's own: its file lies outside the standard library and site-packages."""
    module = sys.modules.get(code.__module__)
    file = getattr(module, "__file__", None)
    if module is None or code.__module__ == "builtins" or (file is None and code.__module__ != "__main__"):
        return code.__module__ not in sys.builtin_module_names
    return file is None or not _in_library(file)


def reached(code: types.CodeType, space: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of what a function reaches by name, that of its inner functions too, sorted.

    A module of the user, global or imported inside the function, is replaced by the attributes that the
    code takes from it and from its submodules.

    Args:
        code: The function's code.
        space: Its globals.
    """
    parts = list(_parts(code))
    names = {name for part in parts for name in part.co_names}
    for name in sorted(names & space.keys()):
        if isinstance(space[name], types.ModuleType):
            yield from _taken(name, space[name], names, set())
        else:
            yield name, space[name]
    package = str(space.get("__package__") or "")
    for name in sorted({name for part in parts for name in _imported(part, package)}):
        yield from _taken(name, importlib.import_module(name), names, set())


def literals(code: types.CodeType) -> list[str]:
    """Return the texts written in a function and in its inner functions, sorted."""
    return sorted({item for part in _parts(code) for item in part.co_consts if isinstance(item, str)})


def _parts(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and those of its inner functions."""
    yield code
    for item in code.co_consts:
        if isinstance(item, types.CodeType):
            yield from _parts(item)


def _imported(code: types.CodeType, package: str) -> Iterator[str]:
    """Yield the full names of the user's modules that code imports when it runs."""
    instructions = [item for item in dis.get_instructions(code) if item.opname != "EXTENDED_ARG"]
    for position, instruction in enumerate(instructions):
        if instruction.opname != "IMPORT_NAME":
            continue
        # The compiler loads the level of a relative import, then the names taken, then imports.
        level, taken = (instructions[position - back].argval for back in (2, 1))
        name = importlib.util.resolve_name("." * int(level or 0) + str(instruction.argval), package)
        for found in (name, *(f"{name}.{item}" for item in taken or ())):
            if _is_users_module(found):
                yield found


def _is_users_module(name: str) -> bool:
    """Whether a name is a module of the user that can be found, without running it."""
    if name.partition(".")[0] in sys.stdlib_module_names:
        return False
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # an attribute of a module and no module, or not installed
        return False
    return spec is not None and spec.origin is not None and not _in_library(spec.origin)


def _taken(place: str, module: Any, names: set[str], seen: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield what code that uses `names` may take from a module of the user and from its submodules."""
    file = getattr(module, "__file__", None) or ""
    library = module.__name__ in sys.stdlib_module_names or _in_library(file)
    if library or module.__name__ in seen:
        return
    seen.add(module.__name__)
    for name in sorted(names & vars(module).keys()):
        found = vars(module)[name]
        if isinstance(found, types.ModuleType):
            yield from _taken(f"{place}.{name}", found, names, seen)
        elif found is not None:
            yield f"{place}.{name}", found


def _in_library(file: str) -> bool:
    return os.path.realpath(file).startswith(_LIBRARIES)
