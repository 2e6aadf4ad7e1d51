"""Fixtures of all tests: stores, small datasets, and watches over files left open or left behind."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "sources")]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder for artifacts that does not exist yet."""
    return tmp_path / "store"


@pytest.fixture
def cifar_root(tmp_path: Path) -> Path:
    """A root with CIFAR-10 in its own layout: 10 training and 3 test pictures."""
    from torchvision_fakes import cifar10

    root = tmp_path / "cifar-root"
    cifar10(root)
    return root


def open_files() -> dict[int, str]:
    """Return this process's open files by descriptor, without pipes and what is not in the file system."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the listing's own descriptor
            continue
        if target.startswith("/") and not target.startswith(("/dev", "/proc")):
            found[int(name)] = target
    return found


@pytest.fixture
def no_open_files() -> Iterator[None]:
    """Fail a test that leaves a file open."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc to list open files")
    before = open_files()

    def left() -> dict[int, str]:
        return {number: path for number, path in open_files().items() if before.get(number) != path}

    yield
    if left():
        gc.collect()  # what only a cycle of references holds
    assert not left()


@pytest.fixture
def same_generators() -> Iterator[None]:
    """Fail a test that leaves a global random generator in another state."""
    import torch

    def state() -> tuple[Any, ...]:
        return random.getstate(), np.random.get_state()[1].tobytes(), bytes(torch.get_rng_state().numpy())

    before = state()
    yield
    assert state() == before


@pytest.fixture
def module_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Return a function that writes a module of the user, to be imported by name."""
    folder = tmp_path / "code"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def write(name: str, text: str) -> Path:
        file = folder / f"{name}.py"
        file.write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return file

    return write
