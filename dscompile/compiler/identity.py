"""Identity of the user's own objects: code by source text, state by value, files by content.

Code without source text (generated, or typed in), and lambdas, of which several may share a line, stand for
themselves by their bytecode. Nothing is pickled and no clock, path or address takes part, so equal objects
have equal identities in every process. What cannot be seen through is opaque and refused, unless the user
declares a version.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import re
import sys
import types
from collections.abc import Mapping
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from dscompile.artifact.hashing import file_sha256
from dscompile.compiler.reach import is_users, literals, reached
from dscompile.compiler.samples import has_bytes
from dscompile.compiler.state import files_below, has_state, state_of
from dscompile.errors import OpaqueError

_PLAIN = (type(None), type(...), bool, int, float, complex, range, slice, str, bytes)
_PATH_WORDS = re.compile(r"root|path|dir|folder|file", re.IGNORECASE)
_BUILTIN = (types.BuiltinFunctionType, types.MethodDescriptorType, np.ufunc, logging.Logger)


def identify(value: Any, place: str, *, version: str | None = None) -> dict[str, Any]:
    """Return plain JSON data that stands for an object: its class and a digest of all it reaches.

    Args:
        value: A dataset, a transform, a function.
        place: What it is called in messages.
        version: The user's declared version; with it, opaque parts are accepted and left out.

    Raises:
        OpaqueError: A part has no identity (an open handle, code without source) and no version is given.
    """
    walk = _Walk(place, opaque_ok=version is not None)
    walk.add(value, "")
    walk.end()
    kind = value if isinstance(value, (type, types.FunctionType)) else type(value)
    return {"object": f"{kind.__module__}.{kind.__qualname__}", "digest": walk.digest.hexdigest()}


class _Walk:
    """One walk over everything an object reaches, feeding a digest in a fixed order."""

    def __init__(self, place: str, *, opaque_ok: bool) -> None:
        self.digest = hashlib.sha256()
        self._place, self._opaque_ok = place, opaque_ok
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []
        self._paths: list[str] = []

    def end(self) -> None:
        """Add where the files lie relative to each other: the folder of a picture may be its label."""
        if self._paths:
            common = os.path.commonpath([os.path.dirname(path) for path in self._paths])
            for path in self._paths:
                self._feed("place", os.path.relpath(path, common))

    def add(self, value: Any, path: str) -> None:
        """Add one value; `path` says in messages where it was reached."""
        if isinstance(value, _PLAIN):
            if isinstance(value, (str, bytes)):
                self._text(value, path)
            else:
                self._feed(type(value).__name__, repr(value))
            return None if type(value).__module__ == "builtins" else self._subclass(value, path)
        if id(value) in self._seen:
            return self._feed("again", str(self._seen[id(value)]))
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)  # an id must not be reused while the walk goes on
        return self._compound(value, path)

    def _compound(self, value: Any, path: str) -> None:
        torch = sys.modules.get("torch")
        if isinstance(value, (Mapping, list, tuple, set, frozenset)):
            self._items(value, path)
        elif isinstance(value, (np.ndarray, np.generic)):
            self._array(np.asarray(value), path)
        elif torch is not None and isinstance(value, torch.Tensor):
            if not has_bytes(value):
                return self._opaque(value, path)
            plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous().as_subclass(torch.Tensor)
            self._feed("tensor", f"{plain.dtype}{tuple(plain.shape)}")
            self.digest.update(plain.reshape(-1).view(torch.uint8).numpy().data)
            self.add(value.__dict__ or None, path)
        elif isinstance(value, types.MethodType):
            self._items((value.__func__, value.__self__), path)
        elif isinstance(value, partial):
            self._items((value.func, value.args, value.keywords), path)
        elif isinstance(value, os.PathLike):
            self._text(os.fspath(value), ".path")
        else:
            self._object(value, path)
        return None

    def _items(self, value: Any, path: str) -> None:
        self._feed(type(value).__name__, str(len(value)))
        if isinstance(value, Mapping):
            for key, item in value.items():  # in their order, which decides what a loop over them yields
                self.add(key, path)
                self.add(item, f"{path}[{key!r}]")
        elif isinstance(value, (set, frozenset)):
            # Sorted by digest: their own order, and that of the texts of nested ones, changes by process.
            for digest in sorted(self._digest(item, path) for item in value):
                self._feed("item", digest)
        else:
            for position, item in enumerate(value):
                self.add(item, f"{path}[{position}]")
        if type(value).__module__ != "builtins":
            self._subclass(value, path)

    def _subclass(self, value: Any, path: str) -> None:
        """Add what a subclass of a plain type has beyond it."""
        self.add(type(value), path)
        self.add(getattr(value, "__dict__", None), path)
        self.add(getattr(value, "default_factory", None), path)

    def _digest(self, value: Any, path: str) -> str:
        walk = _Walk(self._place, opaque_ok=self._opaque_ok)
        walk.add(value, path)
        self._paths.extend(walk._paths)
        return walk.digest.hexdigest()

    def _object(self, value: Any, path: str) -> None:
        if isinstance(value, Enum):
            self._feed("enum", value.name)
            self.add(type(value), path)
        elif isinstance(value, types.FunctionType):
            self._function(value, path)
        elif isinstance(value, type):
            self._class(value, path)
        elif isinstance(value, _BUILTIN) or type(value).__module__ == "torch":
            # Of a logger the name: its handlers are the process's, and change no sample.
            name = value.name if isinstance(value, logging.Logger) else str(value).split(" at 0x")[0]
            self._feed("builtin", f"{getattr(value, '__module__', '')}.{name}")
        elif hasattr(value, "tobytes") and hasattr(value, "mode"):
            self._feed("picture", f"{value.mode}{value.size}")
            self.digest.update(value.tobytes())
            palette = getattr(value, "palette", None)
            self._feed("palette", repr(palette and (palette.mode, bytes(palette.palette))))
            self._feed("info", repr(value.info.get("transparency")))
        elif isinstance(value, types.ModuleType) or not has_state(value):
            self._opaque(value, path)
        else:
            self.add(type(value), path)
            for name, item in state_of(value):
                self._feed("attribute", name)
                self.add(item, f"{path}.{name}")

    def _function(self, function: types.FunctionType, path: str) -> None:
        self._feed("function", f"{function.__module__}.{function.__qualname__}")
        if not is_users(function):
            return
        self._source(function.__code__)
        if function.__name__ == "<lambda>":
            self._bytecode(function.__code__)
        self.add(function.__defaults__, f"{path} defaults")
        self.add(function.__kwdefaults__, f"{path} defaults")
        self.add(getattr(function, "__wrapped__", None), path)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self.add(cell.cell_contents, f"{path} closure {name}")
        for text in literals(function.__code__):
            if os.sep in text:
                self._text(text, path)
        for name, item in reached(function.__code__, function.__globals__):
            self._feed("global", name)
            self.add(item, f"{path} global {name}")

    def _class(self, kind: type, path: str) -> None:
        self._feed("class", f"{kind.__module__}.{kind.__qualname__}")
        if not is_users(kind):
            return
        self._source(kind)
        for base in kind.__bases__:
            self.add(base, path)
        for name, item in sorted(vars(kind).items()):
            wrapped = item.func if isinstance(item, cached_property) else getattr(item, "__func__", None)
            function = wrapped or getattr(item, "fget", None) or item
            function = function if isinstance(function, types.FunctionType) else inspect.unwrap(function)
            if isinstance(function, types.FunctionType):
                self.add(function, f"{path}.{name}")
            elif not name.startswith(("__", "_abc_")) and not inspect.isdatadescriptor(item):
                self._feed("class attribute", name)
                self.add(item, f"{path}.{name}")

    def _source(self, code: Any) -> None:
        """Add the text of a class, or of a code object: that of a function would be what it wraps."""
        try:
            self._feed("source", inspect.getsource(code))
        except (OSError, TypeError):
            self._feed("source", "")
            if isinstance(code, types.CodeType):
                self._bytecode(code)

    def _bytecode(self, code: types.CodeType) -> None:
        self._feed("bytecode", f"{code.co_code.hex()} {code.co_names} {code.co_varnames}")
        for item in code.co_consts:
            if isinstance(item, types.CodeType):
                self._bytecode(item)
            else:
                self.add(item, "")

    def _array(self, array: np.ndarray[Any, Any], path: str) -> None:
        if array.dtype.hasobject:
            return self.add(array.tolist(), path)
        self._feed("array", f"{array.dtype.str}{array.shape}")
        return self.digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _text(self, value: str | bytes, place: str) -> None:
        """Add a text; one that names a file or folder stands for its content, wherever it lies.

        A single word is taken for a path only where its place says so (`root`, `data_dir` …): a label that
        happens to be the name of a folder here must not make the identity depend on where here is.
        """
        text = os.fsdecode(value)
        looks = os.sep in text or "." in text or _PATH_WORDS.search(place.rpartition(".")[2]) is not None
        try:
            if 0 < len(text) < 4096 and text not in ("/", ".", "..") and looks and os.path.exists(text):
                return self._files(Path(text))
        except ValueError:  # no name the file system knows
            pass
        return self._feed(type(value).__name__, repr(value))

    def _files(self, path: Path) -> None:
        if path.is_file():
            self._paths.append(os.path.abspath(path))
            return self._feed("file", f"{path.name} {file_sha256(path)}")
        if path == Path.home() or len(path.resolve().parts) < 3:
            return self._feed("folder", path.name)
        self._feed("folder", "")
        for file in files_below(path):
            self._feed("file", f"{file.relative_to(path).as_posix()} {file_sha256(file)}")
        return None

    def _opaque(self, value: Any, path: str) -> None:
        if not self._opaque_ok:
            raise OpaqueError(
                self._place + (f", at {path.strip()}" if path.strip() else ""),
                "code and state that can be identified",
                f"{type(value).__module__}.{type(value).__qualname__}",
                "Declare version='…' and change it whenever the result changes.",
            )
        self._feed("opaque", f"{type(value).__module__}.{type(value).__qualname__}")

    def _feed(self, kind: str, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        self.digest.update(f"{kind}:{len(data)}:".encode() + data)
