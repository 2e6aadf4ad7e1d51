"""Objects, dicts of splits, `module:attr`, `file.py:attr`, and how `resolve` chooses."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset
from torchvision_fakes import FAKES

from dscompile.errors import SourceError, SourceNotFoundError, UnknownSourceError, UnknownSplitError
from dscompile.sources import attribute, known_names, resolve
from dscompile.sources.objects import ObjectSource, dashed
from dscompile.sources.protocol import Source
from dscompile.sources.specs import SpecSource


class MyFaces:
    """A map-style dataset that is no torch `Dataset`."""

    classes = ("ann", "bob")

    def __init__(self, size: int = 3) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, index % 2


class Stream(IterableDataset[int]):
    """Has a length, and inherits a `__getitem__` that only raises."""

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Lengthless(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


def test_an_object_is_one_split() -> None:
    faces = MyFaces()
    source = resolve(faces, root=Path())
    assert isinstance(source, Source)
    assert isinstance(source, ObjectSource)
    assert (source.name, source.splits, source.declared) == ("my-faces", ("train",), False)
    assert (source.identity(), source.files(), source.notes()) == ({"kind": "object"}, {}, {})
    source.prepare()
    opened = source.open("train")
    assert opened.samples is faces
    assert source.datasets == {"train": faces}
    assert (opened.arrays, opened.field_names, opened.classes) == (None, None, ("ann", "bob"))
    assert len(pickle.loads(pickle.dumps(source)).open("train").samples) == 3
    with pytest.raises(UnknownSplitError, match="my-faces: expected one of its splits train, got 'test'"):
        source.open("test")


def test_a_dict_is_several_splits_with_training_first() -> None:
    parts = {"val": MyFaces(1), "train": MyFaces(5), "test": MyFaces(2)}
    source = resolve(parts, root=Path())
    assert source.splits == ("train", "val", "test")
    assert source.name == "my-faces"
    assert [len(source.open(split).samples) for split in source.splits] == [5, 1, 2]


def test_a_source_is_returned_as_it_is() -> None:
    source = resolve(MyFaces(), root=Path())
    assert resolve(source, root=Path()) is source


@pytest.mark.parametrize(
    "source",
    [[(1, 2), (3, 4)], np.zeros((4, 2)), TensorDataset(torch.zeros(4)), torch.zeros(4, 3), range(4)],
    ids=["list", "array", "TensorDataset", "tensor", "range"],
)
def test_anything_with_a_length_and_an_index_is_a_dataset(source: Any) -> None:
    assert len(resolve(source, root=Path()).open("train").samples) == len(source)


@pytest.mark.parametrize(
    ("source", "got"),
    [
        (Stream(), "an object of class Stream"),
        (Lengthless(), "an object of class Lengthless"),
        ((n for n in range(3)), "an object of class generator"),
        ({1, 2}, "an object of class set"),
        (DataLoader(MyFaces()), "an object of class DataLoader"),  # type: ignore[arg-type]
        (MyFaces, "the class MyFaces itself"),
        (dashed, "the function dashed"),
        (None, "an object of class NoneType"),
        (b"abc", "an object of class bytes"),
        (7, "an object of class int"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_objects_are_refused(source: Any, got: str) -> None:
    with pytest.raises(SourceError) as caught:
        resolve(source, root=Path())
    assert (caught.value.place, caught.value.expected, caught.value.got) == (
        "source",
        "map-style datasets only",
        got,
    )
    assert "list(ds)" in caught.value.cure


def test_dicts_are_checked_split_by_split() -> None:
    with pytest.raises(
        SourceError, match="source, split test: expected map-style datasets only, got an object of"
    ):
        resolve({"train": MyFaces(), "test": iter([])}, root=Path())
    with pytest.raises(SourceError, match="at least one split"):
        resolve({}, root=Path())
    with pytest.raises(SourceError, match="split names as text, got 3"):
        resolve({3: MyFaces()}, root=Path())


def test_classes_are_found_through_wrappers() -> None:
    class Wrapper(MyFaces):
        classes = None  # type: ignore[assignment]
        dataset = Subset(MyFaces(), [0, 1])  # type: ignore[arg-type, var-annotated]

    class Others(MyFaces):
        classes = ("cat", "dog")

    def classes(dataset: Any) -> Any:
        return resolve(dataset, root=Path()).open("train").classes

    one, two, other = MyFaces(), MyFaces(), Others()
    assert classes(Subset(one, [0])) == ("ann", "bob")  # type: ignore[arg-type]
    assert classes(Wrapper()) == ("ann", "bob")
    assert classes(ConcatDataset([one, two])) == ("ann", "bob")  # type: ignore[list-item]
    assert classes(ConcatDataset([one, other])) is None  # type: ignore[list-item]
    assert classes([1, 2]) is None
    loop = Wrapper()
    loop.dataset = loop  # type: ignore[assignment]
    assert classes(loop) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MyFaces", "my-faces"),
        ("CIFAR10", "cifar10"),
        ("FashionMNIST", "fashion-mnist"),
        ("OxfordIIITPet", "oxford-iiit-pet"),
        ("make_faces", "make-faces"),
        ("_Private2Set", "private2-set"),
        ("__", "dataset"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert dashed(name) == expected


CODE = """
import helper_of_my_faces

class Faces:
    classes = ["ann", "bob"]
    def __init__(self, size=2): self.size = size
    def __len__(self): return self.size
    def __getitem__(self, index):
        return lambda: index  # does not pickle

train_set = Faces(4)
train_set.hook = lambda: None
both = {"test": Faces(1), "train": Faces(3)}
def make_faces(size=6): return Faces(size)
def make_both(): return both
def needs(root): return Faces()
def fails(): raise KeyError("the user's own")
def stream(): return (n for n in range(3))
number = 7
class Box:
    inner = train_set
"""


@pytest.fixture
def code(tmp_path: Path) -> Iterator[Path]:
    """Write a module with an import of its own; forget modules and path afterwards."""
    (tmp_path / "helper_of_my_faces.py").touch()
    path = tmp_path / "my_faces_module.py"
    path.write_text(CODE)
    before, modules = list(sys.path), set(sys.modules)
    yield path
    sys.path[:] = before
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("attr", "name", "sizes"),
    [
        ("train_set", "train-set", {"train": 4}),
        ("Faces", "faces", {"train": 2}),
        ("make_faces", "make-faces", {"train": 6}),
        ("both", "both", {"train": 3, "test": 1}),
        ("make_both", "make-both", {"train": 3, "test": 1}),
        ("Box.inner", "inner", {"train": 4}),
    ],
)
def test_file_and_module_specs(attr: str, name: str, sizes: dict[str, int], code: Path) -> None:
    for spec in (f"{code}:{attr}", f"my_faces_module:{attr}"):  # the first puts the folder on the path
        source = resolve(spec, root=Path())
        assert isinstance(source, SpecSource)
        assert (source.name, source.declared, source.files()) == (name, False, {})
        assert {split: len(source.open(split).samples) for split in source.splits} == sizes
        assert source.splits[0] == "train"
        assert source.open("train").classes == ("ann", "bob")
        assert source.identity() == {"kind": "object", "spec": f"{spec.rpartition('/')[2]}"}
        assert str(code.parent) not in str(source.identity())


def test_specs_pickle_by_name(code: Path) -> None:
    source = resolve(f"{code}:train_set", root=Path())
    with pytest.raises(Exception, match="pickle"):
        pickle.dumps(source.open("train").samples)
    stored = pickle.dumps(source)
    probe = "import pickle, sys; s = pickle.load(sys.stdin.buffer); print(s.name, *s.splits)"
    done = subprocess.run([sys.executable, "-c", probe], input=stored, capture_output=True, check=True)
    assert done.stdout.split() == [b"train-set", b"train"]


def test_relative_paths_and_path_objects(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(code.parent)
    for spec in ("my_faces_module.py:both", Path("my_faces_module.py:both")):
        assert resolve(spec, root=Path()).splits == ("train", "test")


def test_attribute_returns_functions_uncalled(code: Path) -> None:
    assert attribute(f"{code}:needs").__name__ == "needs"
    assert attribute("my_faces_module:number") == 7
    with pytest.raises(UnknownSourceError, match=r"expected `package\.module:attr` or .*, got 'needs'"):
        attribute("needs")


@pytest.mark.parametrize(
    ("attr", "kind", "message"),
    [
        (
            "make_face",
            UnknownSourceError,
            "expected an attribute make_face, got none of that name. Did you mean `make_faces`?",
        ),
        ("zzzz", UnknownSourceError, "Define it at the top level of the module."),
        ("Box.iner", UnknownSourceError, "Did you mean `inner`?"),
        ("number", SourceError, "expected map-style datasets only, got an object of class int"),
        ("stream", SourceError, "expected map-style datasets only, got an object of class generator"),
        (
            "needs",
            SourceError,
            "a function that can be called without arguments, got missing a required argument: 'root'",
        ),
    ],
)
def test_wrong_attributes(attr: str, kind: type[Exception], message: str, code: Path) -> None:
    with pytest.raises(kind) as caught:
        resolve(f"{code}:{attr}", root=Path())
    assert message in str(caught.value)
    assert f"{code}:{attr}" in str(caught.value)


def test_errors_of_the_users_code_pass_unchanged(code: Path) -> None:
    with pytest.raises(KeyError, match="the user's own"):
        resolve(f"{code}:fails", root=Path())
    code.with_name("my_broken_module.py").write_text("import a_package_that_is_not_there\n")
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        resolve(f"{code.with_name('my_broken_module.py')}:x", root=Path())
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        resolve("my_broken_module:x", root=Path())


def test_missing_modules_and_files(code: Path) -> None:
    with pytest.raises(
        UnknownSourceError, match=r"module no_such_package\.data: .* named no_such_package\."
    ) as caught:
        resolve("no_such_package.data:train", root=Path())
    assert "no_such_package/data.py:attr" in caught.value.cure
    with pytest.raises(UnknownSourceError, match=r"no module named json\.nothing"):
        resolve("json.nothing:train", root=Path())
    with pytest.raises(SourceNotFoundError, match=r"Did you mean `my_faces_module\.py`") as missing:
        resolve(f"{code.with_name('my_face_module.py')}:x", root=Path())
    assert missing.value.place == str(code.with_name("my_face_module.py"))


def test_a_file_never_passes_for_a_module_of_the_same_name(code: Path, tmp_path: Path) -> None:
    resolve(f"{code}:both", root=Path())
    other = tmp_path / "other" / code.name
    other.parent.mkdir()
    other.write_text("both = [1]\n")
    with pytest.raises(SourceError, match="another module of that name"):
        resolve(f"{other}:both", root=Path())
    builtin = tmp_path / "sys.py"
    builtin.write_text("both = [1]\n")
    with pytest.raises(SourceError, match="built in"):
        resolve(f"{builtin}:both", root=Path())
    dashes = tmp_path / "my-faces.py"
    dashes.write_text("both = [1]\n")
    with pytest.raises(SourceError, match="Rename it"):
        resolve(f"{dashes}:both", root=Path())


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("cifar-10", "`cifar10`"),
        ("CIFAR10", "`cifar10`"),
        ("fashion_mnist", "`fashion-mnist`"),
        ("syntetic", "`synthetic`"),
    ],
)
def test_unknown_names_suggest_known_ones(name: str, near: str) -> None:
    with pytest.raises(UnknownSourceError) as caught:
        resolve(name, root=Path())
    assert near in caught.value.cure
    assert repr(name) in str(caught.value)


def test_unknown_names_without_a_near_one() -> None:
    with pytest.raises(
        UnknownSourceError, match=r"Name a torchvision dataset such as `cifar10`, or `module:attr`"
    ):
        resolve("qqqqqq", root=Path())
    assert {"synthetic", "cifar10", "emnist:balanced"} <= set(known_names())
    assert "emnist" not in known_names()


@pytest.mark.parametrize("name", ["cifar10", "omniglot", "svhn", "imagenet"])
def test_nothing_heavy_is_imported_before_a_split_is_opened(name: str, tmp_path: Path) -> None:
    FAKES[name](tmp_path)
    probe = """
import pickle, sys
from pathlib import Path
from dscompile.sources import resolve
source = resolve(sys.argv[1], root=Path(sys.argv[2]), check=False)
source.prepare()
assert source.files() and source.identity() and source.notes() and source.splits
pickle.loads(pickle.dumps(source)).files()
resolve("synthetic", root=Path()).open("test").arrays["image"]
resolve([1, 2], root=Path()).open("train")
print(sorted({"torch", "torchvision", "PIL", "scipy", "h5py"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", probe, name, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "[]\n"


def test_fake_module_objects_are_not_datasets() -> None:
    with pytest.raises(SourceError, match="an object of class module"):
        resolve(ModuleType("m"), root=Path())
