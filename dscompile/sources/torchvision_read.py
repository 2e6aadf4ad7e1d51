"""Open one split through torchvision: checks of its files, its quirks, its arrays."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dscompile.errors import DscompileError, SourceChecksumError, SourceError, SourceNotFoundError
from dscompile.sources.torchvision_entry import Entry

_BLOCK = 1 << 20


def md5_of(path: Path) -> str:
    """Return the md5 of a file, as the publishers give it: 32 hex digits."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def verify(name: str, files: Mapping[str, Path], published: Mapping[str, str]) -> None:
    """Compare the files that have a published checksum with it.

    Raises:
        SourceChecksumError: One of them differs; names it and both checksums.
    """
    for place in sorted(files.keys() & published.keys()):
        found = md5_of(files[place])
        if found != published[place]:
            raise SourceChecksumError(
                str(files[place]),
                f"md5 {published[place]}, as published for {name}",
                f"md5 {found}",
                "`--no-source-check` accepts a relabelled or cut set; otherwise remove the file and build "
                "again to download it.",
            )


def require_packages(name: str, entry: Entry) -> None:
    """Raise `SourceError` if a package is absent that torchvision needs to read this dataset."""
    from importlib.util import find_spec

    for package in entry.needs:
        if find_spec(package) is None:
            raise SourceError(
                name, f"the package {package}, with which torchvision reads it", "none", f"Install {package}."
            )


def construct(entry: Entry, root: Path, options: Mapping[str, Any], *, download: bool = False) -> Any:
    """Return the torchvision dataset over files that the caller has found and checked.

    With `download` the class's own checks stay on; otherwise they are off, because they repeat `verify` and
    look at all splits. Either way the result is of the plain torchvision class.
    """
    from torchvision import datasets

    plain = getattr(datasets, entry.class_name)
    given = dict(options)
    if entry.fetch == "download" and download:
        given["download"] = True
    with _quiet():
        if download:
            return plain(str(root), **given)
        dataset = _unchecked(plain)(str(root), **given)
    dataset.__class__ = plain
    return dataset


def _unchecked(plain: Any) -> Any:
    """Return a subclass without torchvision's checks. MNIST and DTD derive paths from the class's name."""
    changed: dict[str, Any] = {
        "__module__": plain.__module__,
        "_check_integrity": lambda *_: True,
        "_check_exists": lambda *_: True,
        # Files of an old torchvision would be read in place of those that `files()` names.
        "_check_legacy_exist": lambda *_: False,
    }
    if "md5" in getattr(plain, "meta", ()):  # CIFAR
        changed["meta"] = {**plain.meta, "md5": None}
    if isinstance(getattr(plain, "_RESOURCES", None), dict):  # FER2013
        changed["_RESOURCES"] = {key: (file, None) for key, (file, _) in plain._RESOURCES.items()}
    return type(plain.__name__, (plain,), changed)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # CIFAR's pickles were written by a NumPy that spelt `align` as an integer.
        warnings.filterwarnings("ignore", message=re.escape("dtype(): align should be passed"))
        yield


@contextmanager
def translated(place: str, name: str) -> Iterator[None]:
    """Turn whatever torchvision raises on files that it cannot read into `SourceError`."""
    try:
        yield
    except (DscompileError, MemoryError):
        raise
    except Exception as error:
        raise SourceError(
            place,
            f"files that torchvision can read as {name}",
            f"{type(error).__name__}: {error}",
            "Remove them and build again to download them, or put the published files there.",
        ) from error


def settle(entry: Entry, dataset: Any) -> None:
    """Make order and labels of a torchvision dataset depend on its files alone.

    Three classes take pictures (Omniglot: also the class ids) in the order in which the file system happens
    to list them, which would make the artifact depend on the machine; they are sorted here. Stanford Cars
    yields its labels as 8-bit integers, which would wrap in arithmetic; they become ints.
    """
    if entry.class_name == "Omniglot":
        _sort_omniglot(dataset)
    elif entry.class_name == "SUN397":
        pairs = sorted(zip(dataset._image_files, dataset._labels, strict=True))
        dataset._image_files = [path for path, _ in pairs]
        dataset._labels = [label for _, label in pairs]
    elif entry.class_name == "INaturalist":
        dataset.index.sort()
    elif entry.class_name == "StanfordCars":
        dataset._samples = [(path, int(label)) for path, label in dataset._samples]


def _sort_omniglot(dataset: Any) -> None:
    files = dict(zip(dataset._characters, dataset._character_images, strict=True))
    dataset._alphabets = sorted(dataset._alphabets)
    # As tuples: torchvision joins alphabet and character by the separator of the platform.
    dataset._characters = sorted(files, key=lambda character: character.split(os.sep))
    dataset._character_images = [
        [(file, label) for file in sorted(file for file, _ in files[character])]
        for label, character in enumerate(dataset._characters)
    ]
    dataset._flat_character_images = [pair for pairs in dataset._character_images for pair in pairs]


def require_listed(name: str, entry: Entry, dataset: Any) -> None:
    """Raise `SourceNotFoundError` if a list of the dataset names pictures that are not there."""
    items = getattr(dataset, entry.listed) if entry.listed else []
    paths = [item[0] if isinstance(item, tuple) else item for item in items]
    absent = [path for path in paths if not os.path.isfile(path)]
    if absent:
        raise SourceNotFoundError(
            str(absent[0]),
            f"a picture that {name} lists",
            f"no such file, nor {len(absent) - 1} others of {len(paths)}",
            "Unpack the whole archive there, or choose another folder with `--root`.",
        )


def arrays_of(place: str, entry: Entry, dataset: Any) -> dict[str, np.ndarray[Any, Any]] | None:
    """Return the samples of a dataset that holds them in memory, as views where its layout allows.

    Returns:
        "image": uint8 (N, H, W) or (N, H, W, C) in 0 … 255, as Pillow would show it; "label": int64 (N,).
        None if the dataset reads its samples one by one.

    Raises:
        SourceError: There are not as many labels as pictures.
    """
    if not entry.layout:
        return None
    if entry.layout == "pairs":
        image = np.stack([picture.numpy() for picture, _ in dataset._samples])
        label = np.asarray([label for _, label in dataset._samples], dtype=np.int64)
    else:
        image = _array(dataset.data)
        label = _array(dataset.targets if hasattr(dataset, "targets") else dataset.labels)
    if label.ndim == 2:  # QMNIST keeps the writer and more beside the class
        label = label[:, 0]
    if entry.layout == "CHW":
        image = image.transpose(0, 2, 3, 1)
    if len(label) != len(image):
        raise SourceError(
            place,
            f"{len(image)} labels, one for each picture",
            f"{len(label)}",
            "Put a complete pair of files there.",
        )
    return {"image": image, "label": label.astype(np.int64, copy=False)}


def _array(value: Any) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    return array
