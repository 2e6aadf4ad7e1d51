"""Identity of the user's own code and state: what changes samples changes the id, and nothing else does."""

from __future__ import annotations

import importlib
import linecache
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects import Items
from PIL import Image
from torchvision import transforms
from torchvision.transforms import v2

import dscompile
from dscompile.compiler.identity import identify
from dscompile.errors import OpaqueError

DATASET = """
class Data:
    def __len__(self):
        return 3
    def __getitem__(self, index):
        return {body}
    {more}
"""
Write = Callable[[str, str], Path]


def data(body: str = "index", more: str = "") -> str:
    return DATASET.format(body=body, more=more)


def digest(write: Write, text: str, **others: str) -> str:
    """Return the identity of `Data()` of a module of that text, freshly imported with some others."""
    for name, other in {**others, "users_module": text}.items():
        write(name, other)
    for file in Path(write("unused", "")).parent.rglob("*.pyc"):
        file.unlink()  # younger than a second: Python would take it for the new text's
    linecache.clearcache()
    importlib.invalidate_caches()
    return str(identify(importlib.import_module("users_module").Data(), "x")["digest"])


WRAPPER = """
import functools
def twice(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args) * {0}
    return inner
"""
CHANGES = {
    "the method": (data("index"), data("index + 1")),
    "a helper": ("def f(i): return i" + data("f(index)"), "def f(i): return -i" + data("f(index)")),
    "a helper's helper": (
        "def g(i): return i\ndef f(i): return g(i)" + data("f(index)"),
        "def g(i): return -i\ndef f(i): return g(i)" + data("f(index)"),
    ),
    "a helper in a comprehension": (
        "def f(i): return i" + data("[f(j) for j in range(index)]"),
        "def f(i): return -i" + data("[f(j) for j in range(index)]"),
    ),
    "a default argument": (
        "K = 1\ndef f(i, k=K): return i * k" + data("f(index)"),
        "K = 2\ndef f(i, k=K): return i * k" + data("f(index)"),
    ),
    "a keyword default": (
        "K = 1\ndef f(i, *, k=K): return i * k" + data("f(index)"),
        "K = 2\ndef f(i, *, k=K): return i * k" + data("f(index)"),
    ),
    "a closure constant": tuple(
        f"def make(k):\n    def f(i): return i * k\n    return f\nf = make({k})" + data("f(index)")
        for k in (1, 2)
    ),
    "a global constant": ("K = 1" + data("index * K"), "K = 2" + data("index * K")),
    "a global array": tuple(f"import numpy as np\nK = np.array([1, {k}])" + data("K[index]") for k in (1, 2)),
    "a class attribute": tuple(f"V = {k}" + data("self.k", "k = V") for k in (1, 2)),
    "a callable class attribute": tuple(
        f"class Scale:\n    def __call__(self, i): return i * {k}"
        + data("self.scale(index)", "scale = Scale()")
        for k in (1, 2)
    ),
    "a base class": tuple(
        f"class Base:\n    def get(self, i): return i * {k}"
        + data("self.get(index)").replace("Data:", "Data(Base):")
        for k in (1, 2)
    ),
    "a decorator of a function": tuple(
        WRAPPER.format(k) + "@twice\ndef f(i): return i" + data("f(index)") for k in (1, 2)
    ),
    "a decorator of a method": tuple(
        WRAPPER.format(k) + data().replace("    def __getitem__", "    @twice\n    def __getitem__")
        for k in (1, 2)
    ),
    "a property": tuple(data("self.k", f"@property\n    def k(self): return {k}") for k in (1, 2)),
    "a cached property": tuple(
        "from functools import cached_property"
        + data("self.k", f"@cached_property\n    def k(self): return {k}")
        for k in (1, 2)
    ),
    "a static method": tuple(data("self.k()", f"@staticmethod\n    def k(): return {k}") for k in (1, 2)),
    "a class method": tuple(data("self.k()", f"@classmethod\n    def k(cls): return {k}") for k in (1, 2)),
    "which lambda of a line": tuple(
        f"K = {k}\nfs = [lambda i: i, lambda i: -i]\nf = fs[K]" + data("f(index)") for k in (0, 1)
    ),
    "a cached function": tuple(
        f"import functools\n@functools.lru_cache\ndef f(i): return i * {k}" + data("f(index)") for k in (1, 2)
    ),
    "arguments of a partial": tuple(
        f"import functools\nK = {k}\ndef g(i, k): return i * k\nf = functools.partial(g, k=K)"
        + data("f(index)")
        for k in (1, 2)
    ),
    "an enum": tuple(
        f"from enum import Enum\nclass E(Enum):\n    A = {k}" + data("E.A.value") for k in (1, 2)
    ),
    "a dataclass": tuple(
        f"from dataclasses import dataclass\n@dataclass\nclass C:\n    k: int = {k}\nC_ = C()" + data("C_.k")
        for k in (1, 2)
    ),
    "a named tuple's order": tuple(
        f"from typing import NamedTuple\nclass C(NamedTuple):\n    {a}: int\n    {b}: int\nC_ = C(1, 2)"
        + data("C_.a")
        for a, b in ("ab", "ba")
    ),
    "a method put in later": tuple(
        "def g(self, i): return i\ndef h(self, i): return -i"
        + data("self.get(index)")
        + f"\nData.get = {name}"
        for name in "gh"
    ),
    "an abstract base's method": tuple(
        f"from abc import ABC\nclass B(ABC):\n    def get(self, i): return i * {k}"
        + data("self.get(index)").replace("Data:", "Data(B):")
        for k in (1, 2)
    ),
    "generated code": tuple(
        f"exec(compile('def f(i): return i * {k}', '<made>', 'exec'))" + data("f(index)") for k in (1, 2)
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_code_changes_the_id(name: str, module_of: Write) -> None:
    before, after = CHANGES[name]
    assert digest(module_of, before) == digest(module_of, before)
    assert digest(module_of, before) != digest(module_of, after)


@pytest.mark.parametrize(
    ("importing", "call"),
    [
        ("import users_helper", "users_helper.f(index)"),
        ("import users_helper as other", "other.f(index)"),
        ("from users_helper import f", "f(index)"),
        ("from users_helper import f as g", "g(index)"),
    ],
)
def test_a_changed_module_changes_the_id(importing: str, call: str, module_of: Write) -> None:
    text = importing + data(call)
    found = {
        digest(module_of, text, users_helper=f"def g(i): return i * {k}\ndef f(i): return g(i)")
        for k in (1, 1, 2)
    }
    assert len(found) == 2


@pytest.mark.parametrize(
    ("importing", "call"),
    [
        ("import users_helper", "users_helper.f(index)"),
        ("import users_helper as other", "other.f(index)"),
        ("from users_helper import f as g", "g(index)"),
        ("import json, os.path; import users_helper", "users_helper.f(index)"),
    ],
)
def test_a_module_imported_inside_a_function_counts(importing: str, call: str, module_of: Write) -> None:
    text = data("self.inner(index)", f"def inner(self, index):\n        {importing}\n        return {call}")
    found = {
        digest(module_of, text, users_helper=f"def g(i): return i * {k}\ndef f(i): return g(i)")
        for k in (1, 1, 2)
    }
    assert len(found) == 2


@pytest.mark.parametrize(
    "importing", ["from . import inner", "from .inner import f", "from users_package import inner"]
)
def test_a_relative_import_inside_a_function_counts(importing: str, module_of: Write) -> None:
    package = module_of("unused", "").parent / "users_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    call = "f(index)" if importing.endswith(" f") else "inner.f(index)"
    body = data("self.run(index)", f"def run(self, index):\n        {importing}\n        return {call}")
    (package / "data.py").write_text(body)
    found = set()
    for k in (1, 1, 2):
        (package / "inner.py").write_text(f"def f(i): return i * {k}")
        for name in ("users_package", "users_package.inner", "users_package.data"):
            sys.modules.pop(name, None)
        found.add(digest(module_of, "from users_package.data import Data"))
    assert len(found) == 2


def test_a_changed_submodule_changes_the_id(tmp_path: Path, module_of: Write) -> None:
    package = module_of("unused", "").parent / "users_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    found = set()
    for k in (1, 1, 2):
        (package / "inner.py").write_text(f"def f(i): return i * {k}")
        for name in ("users_package", "users_package.inner"):
            sys.modules.pop(name, None)
        found.add(digest(module_of, "import users_package.inner" + data("users_package.inner.f(index)")))
    assert len(found) == 2


def test_what_changes_nothing_keeps_the_id(module_of: Write) -> None:
    text = "K = 1\ndef f(i): return i * K" + data("f(index)")
    same = [
        text + "\nUNUSED = 5\ndef unused(): return 1",
        "import os, sys\n\n\n" + text,
        text.replace("K = 1", "K = 2 - 1  # one"),
    ]
    assert {digest(module_of, item) for item in (text, *same)} == {digest(module_of, text)}


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


class Words(dict[str, int]):
    pass


def arrays() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    one = np.arange(12, dtype=np.int16).reshape(3, 4)
    other = one.copy()
    other[2, 3] = 0
    return one, other


STATES: dict[str, tuple[Any, Any]] = {
    "an array's value": arrays(),
    "an array's dtype": (np.zeros(2, np.int32), np.zeros(2, np.float32)),
    "an array's shape": (np.zeros((2, 3)), np.zeros((3, 2))),
    "an object array": (np.array(["a", None], object), np.array(["a", 1], object)),
    "a tensor's value": (torch.zeros(3), torch.tensor([0.0, 0.0, -0.0])),
    "a tensor's dtype": (torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.float16)),
    "a picture": (Image.new("L", (2, 2), 0), Image.new("L", (2, 2), 1)),
    "a picture's mode": (Image.new("L", (3, 1)), Image.new("RGB", (1, 1))),
    "a list's order": ([1, 2], [2, 1]),
    "list or tuple": ([1, 2], (1, 2)),
    "where lists end": ([[1], [2, 3]], [[1, 2], [3]]),
    "a dict's order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "a dict's value": ({"a": [1]}, {"a": [2]}),
    "1 or True": (1, True),
    "1 or 1.0": (1, 1.0),
    "0.0 or -0.0": (0.0, -0.0),
    "'1' or 1": ("1", 1),
    "text or bytes": ("a", b"a"),
    "a set": ({1, 2}, {1, 3}),
    "a slice": (slice(1, 2), slice(1, 3)),
    "a dict of another class": ({"a": 1}, Words(a=1)),
    "two of one, or one twice": ([Holder(1), Holder(1)], [Holder(1), Holder(2)]),
    "a dtype": (torch.float16, torch.float32),
    "a method": (str.upper, str.lower),
    "a device": (torch.device("cpu"), torch.device("meta")),
}


@pytest.mark.parametrize("name", STATES)
def test_changed_state_changes_the_id(name: str) -> None:
    one, other = STATES[name]
    assert identify(Holder(one), "x") == identify(Holder(one), "x")
    assert identify(Holder(one), "x") != identify(Holder(other), "x")


def test_equal_state_has_one_id_wherever_it_lies() -> None:
    strided = np.arange(24).reshape(4, 6)[::2, ::3]
    assert identify(Holder(strided), "x") == identify(Holder(strided.copy()), "x")
    assert identify(Holder(torch.eye(3).T), "x") == identify(Holder(torch.eye(3)), "x")
    loop: list[Any] = [1]
    loop.append(loop)
    again: list[Any] = [1]
    again.append(again)
    assert identify(Holder(loop), "x") == identify(Holder(again), "x")


def test_the_id_is_the_same_in_every_process(module_of: Write, tmp_path: Path) -> None:
    """Whatever the hash seed, the working folder and the environment."""
    folder = module_of(
        "users_module",
        "class Data:\n    def __init__(self):\n"
        "        self.sets = {frozenset({'a', 'z'}), frozenset({'m', 'n', 'b'}), frozenset({'y', 'c'})}\n"
        "        self.words = {'one': {1, 2, 3}, 'two': {'x', 'yy', 'zzz'}}\n"
        "        self.function = lambda index: {'p', 'q'}\n"
        "        self.object = object\n",
    ).parent
    code = (
        "import users_module\nfrom dscompile.compiler.identity import identify\n"
        "print(identify(users_module.Data(), 'x'))"
    )
    found = set()
    for seed in ("0", "1", "2", "77"):
        place = tmp_path / seed
        place.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": seed, "EXTRA": seed}
        found.add(
            subprocess.check_output([sys.executable, "-c", code], cwd=place, env=environment, text=True)
        )
    assert len(found) == 1


def test_a_file_named_in_the_state_counts_by_content(tmp_path: Path) -> None:
    for kind in (str, Path, os.fsencode):
        file = tmp_path / "one" / "list.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text("a")
        before = identify(Holder(kind(str(file))), "x")
        moved = tmp_path / "two" / "list.txt"
        moved.parent.mkdir(exist_ok=True)
        moved.write_text("a")
        assert identify(Holder(kind(str(moved))), "x") == before
        moved.write_text("b")
        assert identify(Holder(kind(str(moved))), "x") != before


def test_a_folder_named_in_the_state_counts_by_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "pictures" / "deep"
    folder.mkdir(parents=True)
    (folder / "1.bin").write_bytes(b"1")
    ids = [identify(Holder(str(tmp_path / "pictures")), "x")]
    (folder / "1.bin").write_bytes(b"2")
    ids.append(identify(Holder(str(tmp_path / "pictures")), "x"))
    (folder / "1.bin").rename(folder / "2.bin")
    ids.append(identify(Holder(str(tmp_path / "pictures")), "x"))
    assert len({item["digest"] for item in ids}) == 3


class Named:
    """The label of a file is the name of its folder, as in many datasets."""

    def __init__(self, root: Path) -> None:
        self.files = sorted(map(str, root.rglob("*.txt")))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> int:
        return int(Path(self.files[index]).parent.name)


def test_renamed_folders_of_files_change_the_id(tmp_path: Path, store: Path) -> None:
    for label in ("0", "1"):
        (tmp_path / "root" / label).mkdir(parents=True)
        (tmp_path / "root" / label / "same.txt").write_text(label)
    assert list(dscompile.compile(Named(tmp_path / "root"), store=store)) == [0, 1]
    (tmp_path / "root" / "0").rename(tmp_path / "root" / "7")
    assert list(dscompile.compile(Named(tmp_path / "root"), store=store)) == [1, 7]


OPAQUE = {
    "an open file": lambda: open(__file__, "rb"),  # noqa: SIM115
    "a generator": lambda: (index for index in range(3)),
    "a lock": lambda: __import__("threading").Lock(),
    "a module": lambda: sys,
    "an iterator": lambda: iter([1]),
    "a sparse tensor": lambda: torch.eye(2).to_sparse(),
    "a tensor without data": lambda: torch.empty(2, device="meta"),
    "a random generator of torch": lambda: torch.Generator(),
    "deep inside": lambda: {"a": [Holder((1, __import__("threading").Lock()))]},
}


@pytest.mark.parametrize("name", OPAQUE)
def test_what_cannot_be_seen_through_is_refused(name: str, store: Path) -> None:
    value = OPAQUE[name]()
    dataset = Items([torch.zeros(2)])
    dataset.extra = value  # type: ignore[attr-defined]
    try:
        with pytest.raises(OpaqueError, match=r"\.extra.*version="):
            dscompile.build(dataset, store=store)
        assert not store.exists()
        one, other = (dscompile.build(dataset, store=store, version=version) for version in "ab")
        assert one.manifest.recipe_id != other.manifest.recipe_id
        assert not dscompile.build(dataset, store=store, version="a").built
    finally:
        getattr(value, "close", bool)()


ORDINARY = {
    "a logger": lambda: __import__("logging").getLogger("users"),
    "a NumPy function": lambda: np.sqrt,
    "a torch function": lambda: torch.relu,
    "a lambda with an ellipsis": lambda: lambda item: item[..., 0],
    "a torch module": lambda: torch.nn.Linear(2, 2),
    "torchvision transforms": lambda: v2.Compose(
        [v2.Resize(4), transforms.ToTensor(), transforms.Grayscale()]
    ),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_what_users_hold_is_seen_through(name: str) -> None:
    torch.manual_seed(0)
    one = identify(Holder(ORDINARY[name]()), "x")
    torch.manual_seed(0)
    assert identify(Holder(ORDINARY[name]()), "x") == one
