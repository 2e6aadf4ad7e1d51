"""Datasets named as `package.module:attr` or `file.py:attr`."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from dscompile.errors import SourceError, SourceNotFoundError, UnknownSourceError
from dscompile.sources.objects import ObjectSource, dashed, is_map_style, splits_of


def names() -> list[str]:
    """Return no name: these are the user's own."""
    return []


def claim(source: object, root: Path, check: bool) -> SpecSource | None:
    """Return the source that `package.module:attr` or `file.py:attr` stands for, None for other things.

    The attribute is a dataset, a dict of splits, or a function or class that returns one when called without
    arguments. What the user's own code raises passes through.

    Raises:
        SourceNotFoundError: The file does not exist.
        UnknownSourceError: There is no such module or attribute.
        SourceError: The attribute is none of these.
    """
    parts = _parts(source) if isinstance(source, str) else None
    return SpecSource(*parts) if parts else None


def attribute(spec: str) -> Any:
    """Return what `package.module:attr` or `file.py:attr` names, as it is: a function is not called.

    Raises:
        SourceNotFoundError: The file does not exist.
        UnknownSourceError: The text has another form, or there is no such module or attribute.
    """
    parts = _parts(spec)
    if parts is None:
        raise UnknownSourceError(
            "module:attr",
            "`package.module:attr` or `file.py:attr`",
            repr(spec),
            "Name the attribute after a colon.",
        )
    return _find(*parts)


def _parts(spec: str) -> tuple[str, str] | None:
    """Return module and attribute of a spec, a file as its absolute path; None if the text is no spec."""
    module, _, attr = spec.rpartition(":")
    is_file = module.endswith(".py")
    if not all(part.isidentifier() for part in [*attr.split("."), *([] if is_file else module.split("."))]):
        return None
    return (os.path.abspath(os.path.expanduser(module)) if is_file else module), attr


class SpecSource(ObjectSource):
    """Datasets found by importing their module. Pickles by name: a worker imports the module again.

    Args:
        module: A dotted module name, or the absolute path of a `.py` file.
        attr: The attribute, dotted if it is inside a class.
    """

    def __init__(self, module: str, attr: str) -> None:
        self.module, self.attr = module, attr
        super().__init__(splits_of(_value(module, attr), f"{module}:{attr}"), dashed(attr.rpartition(".")[2]))

    def __reduce__(self) -> tuple[type[SpecSource], tuple[str, str]]:
        """Pickle by name, so that datasets that do not pickle can be read in workers too."""
        return type(self), (self.module, self.attr)

    def identity(self) -> dict[str, Any]:
        """Return the spec, a file by its bare name; the rest is the compiler's to find out."""
        return {"kind": "object", "spec": f"{os.path.basename(self.module)}:{self.attr}"}


def _value(module: str, attr: str) -> Any:
    value = _find(module, attr)
    if isinstance(value, type) or (callable(value) and not is_map_style(value)):
        return _call(value, f"{module}:{attr}")
    return value


def _find(module: str, attr: str) -> Any:
    value: Any = _import_file(Path(module)) if module.endswith(".py") else _import_module(module)
    for name in attr.split("."):
        if not hasattr(value, name):
            near = difflib.get_close_matches(name, _public(dir(value)), n=1)
            cure = f"Did you mean `{near[0]}`?" if near else "Define it at the top level of the module."
            raise UnknownSourceError(f"{module}:{attr}", f"an attribute {name}", "none of that name", cure)
        value = getattr(value, name)
    return value


def _public(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def _call(function: Any, place: str) -> Any:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:  # ValueError: a builtin without a signature
        raise SourceError(
            place,
            "a function that can be called without arguments",
            f"{error}",
            "Give its arguments default values, or wrap it in a function that passes them.",
        ) from error
    try:
        return function()
    except SystemExit as error:
        raise _ended(place, error) from error


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A module that the user's module fails to import is the user's error, and passes.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise UnknownSourceError(
            f"module {name}",
            "a module that Python can import",
            f"no module named {error.name}",
            f"Install it, put its folder on PYTHONPATH, or name a file: `{name.replace('.', '/')}.py:attr`.",
        ) from error


def _import_file(path: Path) -> ModuleType:
    """Import a file with its folder on `sys.path`, where it stays: samples may import from there later."""
    if not path.is_file():
        raise SourceNotFoundError(str(path), "a Python file", "no such file", _near_files(path))
    name = path.stem
    if not name.isidentifier():
        raise SourceError(
            str(path),
            "a file name that can be imported",
            repr(path.name),
            "Rename it with letters, digits and `_` only.",
        )
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # the file may be younger than Python's listing of its folder
    try:
        module = importlib.import_module(name)
    except (SystemExit, SyntaxError) as error:
        raise _ended(str(path), error) from error
    found = getattr(module, "__file__", None)
    if found is None or not os.path.samefile(found, path):
        raise SourceError(
            str(path),
            f"to import it as {name}",
            f"another module of that name ({found or 'built in'})",
            "Rename the file.",
        )
    return module


def _ended(place: str, error: BaseException) -> SourceError:
    """Return the error for code that ends the process, or is no Python, instead of giving a dataset."""
    got = f"{type(error).__name__}: {error}"
    return SourceError(place, "code that runs to its end", got, "Correct it, and try it with python alone.")


def _near_files(path: Path) -> str:
    files = [file.name for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, files, n=1)
    return f"Did you mean `{near[0]}`?" if near else "Check the path; it is relative to the current folder."
