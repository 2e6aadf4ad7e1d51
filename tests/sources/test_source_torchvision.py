"""torchvision sources: every fake yields, per sample and as arrays, what was written into its files."""

from __future__ import annotations

import gzip
import inspect
import os
import pickle
import sys
import tarfile
import urllib.request
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import torchvision
from torchvision_fakes import FAKES, idx, mat, picture, pixels

from dscompile.errors import (
    SourceChecksumError,
    SourceError,
    SourceNotFoundError,
    UnknownSourceError,
    UnknownSplitError,
)
from dscompile.sources import resolve
from dscompile.sources.protocol import Source
from dscompile.sources.torchvision import TABLE, names
from dscompile.sources.torchvision_read import md5_of

ARRAYS = [
    "cifar10",
    "cifar100",
    "mnist",
    "fashion-mnist",
    "kmnist",
    "emnist:balanced",
    "qmnist",
    "svhn",
    "stl10",
]
ARRAYS += ["usps", "semeion", "fer2013"]
CLASSES = {
    "cifar10": ("kind0", "kind1", "kind2", "kind3", "kind4", "kind5", "kind6", "kind7", "kind8", "kind9"),
    "svhn": None,
    "gtsrb": None,
    "fer2013": None,
    "food101": ("cake", "pie"),
    "imagenet": ("crane, bird", "crane"),
    "imagenette": ("tench, Tinca tinca", "English springer, English springer spaniel"),
    "caltech256": ("001.ak47", "002.flag"),
    "omniglot": ("Latin/character01", "Latin/character02", "Latin-A/character01"),
    "places365": ("/a/airfield", "/z/zen_garden"),
    "lfw-people": ("Ann_A", "Bob_B"),
    "stanford-cars": ("AM General", "Acura", "Audi"),
    "oxford-iiit-pet": ("British Cat", "Beagle"),
    "oxford-iiit-pet:segmentation": None,
    "fgvc-aircraft": ("A 1", "B/2"),
}

# Classes that yield no (picture, label): boxes, captions, videos, pairs, random numbers. LSUN leaves cache
# files in the current folder.
OTHERS = """
    LSUN LSUNClass ImageFolder DatasetFolder FakeData CocoCaptions CocoDetection MovingMNIST PhotoTour SBU
    Flickr8k Flickr30k VOCSegmentation VOCDetection Cityscapes WIDERFace SBDataset VisionDataset Kinetics
    HMDB51 UCF101 Kitti LFWPairs KittiFlow Sintel FlyingChairs FlyingThings3D HD1K Kitti2012Stereo
    Kitti2015Stereo CarlaStereo Middlebury2014Stereo CREStereo FallingThingsStereo SceneFlowStereo
    SintelStereo InStereo2k ETH3DStereo wrap_dataset_for_transforms_v2
"""


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise URLError("no network in tests")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


def as_numbers(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


@pytest.mark.parametrize("name", FAKES)
def test_yields_what_its_files_hold(name: str, tmp_path: Path) -> None:
    expected = FAKES[name](tmp_path)
    source = resolve(name, root=tmp_path, check=False)
    source.prepare()
    assert source.splits == tuple(expected)
    for split, samples in expected.items():
        opened = source.open(split)
        assert len(opened.samples) == len(samples)
        for index, (image, label) in enumerate(samples):
            got_image, got_label = opened.samples[index]
            np.testing.assert_array_equal(np.asarray(got_image), image, strict=True)
            np.testing.assert_array_equal(as_numbers(got_label), as_numbers(label))
            if opened.field_names == ("image", "label"):
                assert type(got_label) is int
        if name in CLASSES:
            assert opened.classes == CLASSES[name]


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_equal_the_samples(name: str, tmp_path: Path) -> None:
    expected = FAKES[name](tmp_path)
    for split, samples in expected.items():
        arrays = resolve(name, root=tmp_path, check=False).open(split).arrays
        assert arrays is not None
        np.testing.assert_array_equal(arrays["image"], np.stack([image for image, _ in samples]), strict=True)
        wanted = np.array([label for _, label in samples], dtype=np.int64)
        np.testing.assert_array_equal(arrays["label"], wanted, strict=True)


def test_only_array_backed_sources_give_arrays() -> None:
    assert {name for name, entry in TABLE.items() if entry.layout} == {
        name.partition(":")[0] for name in ARRAYS
    }


@pytest.mark.parametrize("name", ["cifar10", "mnist", "stl10"])
def test_arrays_are_views(name: str, tmp_path: Path) -> None:
    FAKES[name](tmp_path)
    opened = resolve(name, root=tmp_path, check=False).open("train")
    assert opened.arrays is not None
    assert np.shares_memory(opened.arrays["image"], as_numbers(opened.samples.data))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", [name for name in FAKES if not TABLE[name.partition(":")[0]].md5 and name != "omniglot"]
)
def test_equals_plain_torchvision(name: str, tmp_path: Path) -> None:
    """Where torchvision publishes no checksum of a local file, its own class opens the fake as well."""
    dataset, _, variant = name.partition(":")
    entry = TABLE[dataset]
    FAKES[name](tmp_path)
    for split, row in (replace(entry, **entry.variants.get(variant, {})).splits).items():
        plain = getattr(torchvision.datasets, entry.class_name)(str(tmp_path), **row.options)
        opened = resolve(name, root=tmp_path).open(split)
        assert type(opened.samples) is type(plain)
        assert len(opened.samples) == len(plain)
        samples = zip(range(len(plain)), range(len(plain)), strict=True)
        if dataset in ("sun397", "inaturalist"):  # plain torchvision takes the order of the file system
            samples = ((sorted_at, at) for at, sorted_at in enumerate(_ranks(plain)))  # type: ignore[assignment]
        for ours, theirs in samples:
            for one, other in zip(opened.samples[ours], plain[theirs], strict=True):
                np.testing.assert_array_equal(as_numbers(one), as_numbers(other), strict=True)


def _ranks(plain: Any) -> list[int]:
    keys = list(plain.index if hasattr(plain, "index") else plain._image_files)
    order = sorted(keys)
    return [order.index(key) for key in keys]


def test_files_are_those_that_exist_and_count(tmp_path: Path) -> None:
    FAKES["fashion-mnist"](tmp_path)
    raw = tmp_path / "FashionMNIST/raw"
    (raw / "train-images-idx3-ubyte.gz").write_bytes(b"archive")
    (tmp_path / "FashionMNIST/processed").mkdir()
    source = resolve("fashion-mnist", root=tmp_path)
    assert source.files() == {
        f"FashionMNIST/raw/{name}": raw / name
        for name in (
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
        )
    }
    assert list(source.files(["test"])) == [
        "FashionMNIST/raw/t10k-images-idx3-ubyte",
        "FashionMNIST/raw/t10k-labels-idx1-ubyte",
    ]
    assert resolve("fashion-mnist", root=tmp_path / "elsewhere").files() == {}


def test_files_follow_links_as_torchvision_does(tmp_path: Path) -> None:
    FAKES["eurosat"](tmp_path / "real")
    (tmp_path / "eurosat/2750").mkdir(parents=True)
    for name in ("Forest", "River"):
        (tmp_path / "eurosat/2750" / name).symlink_to(tmp_path / "real/eurosat/2750" / name)
    source = resolve("eurosat", root=tmp_path)
    assert len(source.open("train").samples) == 4
    assert list(source.files()) == [
        f"eurosat/2750/{name}/{name}_{n}.jpg" for name in ("Forest", "River") for n in (0, 1)
    ]


def test_legacy_files_are_not_read_in_place_of_the_named_ones(tmp_path: Path) -> None:
    import torch

    FAKES["mnist"](tmp_path)
    (tmp_path / "MNIST/processed").mkdir()
    for name in ("training.pt", "test.pt"):
        stale = (torch.zeros(1, 28, 28, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64))
        torch.save(stale, tmp_path / "MNIST/processed" / name)
    assert len(resolve("mnist", root=tmp_path).open("train").samples) == 4


def test_checksums_are_compared_by_default(tmp_path: Path) -> None:
    FAKES["cifar10"](tmp_path)
    source = resolve("cifar10", root=tmp_path)
    source.prepare()
    assert source.notes()["published_checksums"] == "checked"
    with pytest.raises(SourceChecksumError) as caught:
        source.open("train")
    error = caught.value
    assert error.place == str(tmp_path / "cifar-10-batches-py/batches.meta")
    assert "5ff9c542aee3614f3951f8cda6e48888" in error.expected
    assert len(error.got) == len("md5 ") + 32
    assert "--no-source-check" in error.cure
    assert resolve("cifar10", root=tmp_path, check=False).notes()["published_checksums"] == "not checked"
    assert resolve("gtsrb", root=tmp_path).notes()["published_checksums"] == "none published"


def test_matching_checksums_pass_and_a_later_change_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAKES["usps"](tmp_path)
    published = {name: md5_of(tmp_path / name) for name in ("usps.bz2", "usps.t.bz2")}
    monkeypatch.setitem(TABLE, "usps", replace(TABLE["usps"], md5=published))  # type: ignore[misc]
    source = resolve("usps", root=tmp_path)
    assert len(source.open("train").samples) == 2
    again = pickle.loads(pickle.dumps(source))
    (tmp_path / "usps.bz2").write_bytes((tmp_path / "usps.t.bz2").read_bytes())
    for one in (source, again):
        with pytest.raises(SourceChecksumError, match=r"usps\.bz2"):
            one.open("train")
    assert len(source.open("test").samples) == 1


def test_checks_leave_torchvision_itself_alone(tmp_path: Path) -> None:
    FAKES["cifar10"](tmp_path)
    opened = resolve("cifar10", root=tmp_path, check=False).open("train")
    assert type(opened.samples) is torchvision.datasets.CIFAR10
    assert len(pickle.loads(pickle.dumps(opened.samples))) == 10
    with pytest.raises(RuntimeError, match="corrupted"):
        torchvision.datasets.CIFAR10(str(tmp_path))


class Old:
    """Warns when unpickled, as NumPy 2.4.0 does on data types that NumPy 1 pickled."""

    def __reduce__(self) -> Any:
        text = "dtype(): align should be passed as Python or NumPy boolean but got `align=0`."
        return warnings.warn, (text, UserWarning)


def test_old_pickles_open_without_warning(tmp_path: Path) -> None:
    FAKES["cifar100"](tmp_path)
    path = tmp_path / "cifar-100-python/train"
    path.write_bytes(pickle.dumps({**pickle.loads(path.read_bytes()), "old": Old()}))
    with pytest.warns(UserWarning, match="align"):
        pickle.loads(path.read_bytes())
    assert len(resolve("cifar100", root=tmp_path, check=False).open("train").samples) == 3


@pytest.mark.parametrize("name", FAKES)
def test_any_missing_file_is_named(name: str, tmp_path: Path) -> None:
    FAKES[name](tmp_path)
    source = resolve(name, root=tmp_path, check=False)
    layout, last = TABLE[name.partition(":")[0]].layout, source.splits[-1]
    for place, path in source.files([last]).items():
        if not layout and not place.endswith((".mat", ".txt", ".csv", ".json", ".h5", ".bin")):
            continue
        path.rename(path.with_name("gone~"))
        with pytest.raises(SourceNotFoundError) as caught:
            source.prepare([last])
        assert caught.value.place.startswith(str(tmp_path / place.partition(".")[0]))
        assert "--root" in caught.value.cure
        with pytest.raises(SourceNotFoundError, match=os.path.basename(place)):
            source.open(last)
        path.with_name("gone~").rename(path)
    source.prepare([last])


@pytest.mark.parametrize("name", sorted({name for name in FAKES if name in TABLE and TABLE[name].listed}))
def test_any_missing_listed_picture_is_named(name: str, tmp_path: Path) -> None:
    FAKES[name](tmp_path)
    source = resolve(name, root=tmp_path, check=False)
    split = source.splits[-1]
    items = getattr(source.open(split).samples, TABLE[name].listed)
    paths = [Path(item[0] if isinstance(item, tuple) else item) for item in items]
    (paths[-1].parent / "other.jpg").touch()  # so that the folder is not empty
    paths[-1].unlink()
    with pytest.raises(SourceNotFoundError) as caught:
        source.open(split)
    assert caught.value.place == str(paths[-1])


def test_missing_download_names_archive_checksum_and_cure(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError) as caught:
        resolve("cifar10", root=tmp_path / "new").prepare()
    error = caught.value
    assert error.place == str(tmp_path / "new/cifar-10-batches-py/data_batch_1")
    assert "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz" in error.expected
    assert "c58f30108f718f92721af3b95e74349a" in error.expected
    assert "no network in tests" in error.got
    assert str(tmp_path / "new") in error.cure
    assert "--root" in error.cure
    assert not (tmp_path / "new").exists()
    assert isinstance(error, FileNotFoundError)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("imagenet", "ILSVRC2012_devkit_t12.tar.gz (md5 fa75699e90414af021442c21a62c3abf)"),
        ("stanford-cars", "stanford-cars, split train"),
        ("fer2013", "this file (or fer2013/icml_face_data.csv or fer2013/train.csv) of fer2013, split train"),
        ("lfw-people", "lfw-funneled.tgz (md5 1b42dfed7d15c9b2dd63d5e5840c86ad)"),
    ],
)
def test_what_cannot_be_downloaded_is_named(name: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="torchvision cannot download") as caught:
        resolve(name, root=tmp_path / "new").prepare()
    assert named in caught.value.expected
    assert not (tmp_path / "new").exists()


def test_splits_that_are_there_suffice(tmp_path: Path) -> None:
    FAKES["svhn"](tmp_path)
    (tmp_path / "train_32x32.mat").unlink()
    source = resolve("svhn", root=tmp_path, check=False)
    source.prepare(["test"])
    assert len(source.open("test").samples) == 3
    with pytest.raises(SourceNotFoundError, match=r"train_32x32\.mat"):
        source.prepare()


def republish(monkeypatch: pytest.MonkeyPatch, name: str, root: Path) -> dict[str, str]:
    """Put the md5 of archives and files that lie in the root into our table; return them by file name."""
    entry = TABLE[name]
    parts = {
        split: replace(
            rows,
            archives=tuple(
                replace(archive, md5=md5_of(root / archive.place))
                if (root / archive.place).is_file()
                else archive
                for archive in rows.archives
            ),
        )
        for split, rows in entry.splits.items()
    }
    md5 = {place: md5_of(root / place) for place in entry.md5}
    monkeypatch.setitem(TABLE, name, replace(entry, md5=md5, splits=parts))  # type: ignore[misc]
    found = {archive.place: archive.md5 for rows in parts.values() for archive in rows.archives} | md5
    return {place.rpartition("/")[2]: value for place, value in found.items() if value}


@pytest.fixture
def cifar_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Publish a fake CIFAR-10: an archive in a folder, with its checksums in the table and in torchvision."""
    root = tmp_path / "root"
    FAKES["cifar10"](root)
    archive = root / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(root / "cifar-10-batches-py", "cifar-10-batches-py")
    md5, plain = republish(monkeypatch, "cifar10", root), torchvision.datasets.CIFAR10
    monkeypatch.setattr(plain, "tgz_md5", md5[archive.name])
    for part in ("train_list", "test_list"):
        monkeypatch.setattr(plain, part, [[name, md5[name]] for name, _ in getattr(plain, part)])
    monkeypatch.setattr(plain, "meta", {**plain.meta, "md5": md5["batches.meta"]})
    return archive


def test_a_local_archive_is_unpacked_without_network(
    cifar_archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = cifar_archive.parent
    for path in (root / "cifar-10-batches-py").iterdir():
        path.unlink()
    (root / "cifar-10-batches-py").rmdir()
    source = resolve("cifar10", root=root)
    source.prepare()
    assert len(source.open("train").samples) == 10
    assert sorted(path.name for path in root.iterdir()) == ["cifar-10-batches-py", "cifar-10-python.tar.gz"]
    assert not cifar_archive.is_symlink()
    assert capsys.readouterr().out == ""


def test_compressed_idx_files_are_unpacked_without_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FAKES["kmnist"](tmp_path)
    for path in list((tmp_path / "KMNIST/raw").iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    md5, plain = republish(monkeypatch, "kmnist", tmp_path), torchvision.datasets.KMNIST
    monkeypatch.setattr(plain, "resources", [(name, md5[name]) for name, _ in plain.resources])
    source = resolve("kmnist", root=tmp_path)
    assert source.files() == {}
    source.prepare()
    assert len(source.files()) == 4
    assert len(source.open("test").samples) == 4


def test_imagenet_is_unpacked_from_its_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made"
    rows = [
        (2, "n02", "crane", "a machine", 0),
        (1, "n01", "crane, bird", "a bird", 0),
        (3, "n00", "x", "y", 2),
    ]
    names = ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children")
    mat(made / "data/meta.mat", synsets=np.array(rows, dtype=[(name, object) for name in names]))
    (made / "data/ILSVRC2012_validation_ground_truth.txt").write_text("1\n2\n")
    images = [picture(made / f"val/ILSVRC2012_val_{n}.JPEG", n) for n in range(2)]
    root = tmp_path / "root"
    root.mkdir()
    with tarfile.open(root / "ILSVRC2012_devkit_t12.tar.gz", "w:gz") as file:
        file.add(made / "data", "ILSVRC2012_devkit_t12/data")
    with pytest.raises(SourceNotFoundError, match=r"ILSVRC2012_img_val\.tar"):
        resolve("imagenet", root=root).prepare(["val"])
    with tarfile.open(root / "ILSVRC2012_img_val.tar", "w") as file:
        for path in sorted((made / "val").iterdir()):
            file.add(path, path.name)
    md5 = republish(monkeypatch, "imagenet", root)
    meta = sys.modules["torchvision.datasets.imagenet"].ARCHIVE_META
    for key, (name, published) in list(meta.items()):
        monkeypatch.setitem(meta, key, (name, md5.get(name, published)))
    source = resolve("imagenet", root=root)
    source.prepare(["val"])
    opened = source.open("val")
    assert opened.classes == ("crane, bird", "crane")
    for index, image in enumerate(images):
        got, label = opened.samples[index]
        np.testing.assert_array_equal(np.asarray(got), image)
        assert label == index
    (root / "meta.bin").unlink()  # as left by someone who unpacked the pictures alone
    (root / "ILSVRC2012_img_val.tar").unlink()
    source.prepare(["val"])
    assert not (root / "val").is_symlink()
    assert len(source.open("val").samples) == 2


def test_a_download_never_overwrites_a_file(cifar_archive: Path) -> None:
    root = cifar_archive.parent
    relabelled = root / "cifar-10-batches-py/data_batch_2"
    relabelled.write_bytes(b"mine")
    (root / "cifar-10-batches-py/batches.meta").unlink()
    resolve("cifar10", root=root, check=False).prepare()
    assert relabelled.read_bytes() == b"mine"
    assert (root / "cifar-10-batches-py/batches.meta").is_file()


def test_an_altered_archive_is_neither_used_nor_overwritten(cifar_archive: Path) -> None:
    cifar_archive.write_bytes(b"cut short")
    (cifar_archive.parent / "cifar-10-batches-py/test_batch").unlink()
    with pytest.raises(SourceNotFoundError, match=r"cifar-10-python\.tar\.gz is there, but its md5 is"):
        resolve("cifar10", root=cifar_archive.parent).prepare()
    assert cifar_archive.read_bytes() == b"cut short"


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("cifar10", "cifar-10-batches-py/data_batch_3", b"not a pickle"),
        ("mnist", "MNIST/raw/train-images-idx3-ubyte", b"\0\0"),
        ("svhn", "train_32x32.mat", b"MATLAB?" * 40),
        ("food101", "food-101/meta/train.json", b"{"),
        ("fer2013", "fer2013/fer2013.csv", b"a,b,c\n1,2,3\n"),
    ],
)
def test_unreadable_files_give_our_error(name: str, file: str, content: bytes, tmp_path: Path) -> None:
    FAKES[name](tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(
        SourceError, match=f"{name}, split train, in .*: expected files that torchvision"
    ) as caught:
        resolve(name, root=tmp_path, check=False).open("train")
    assert caught.value.__cause__ is not None


def test_cut_labels_are_noticed(tmp_path: Path) -> None:
    FAKES["mnist"](tmp_path)
    idx(tmp_path / "MNIST/raw/train-labels-idx1-ubyte", pixels(0, 3))
    with pytest.raises(SourceError, match="expected 4 labels, one for each picture, got 3"):
        resolve("mnist", root=tmp_path).open("train")


def test_unknown_split_and_variant(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownSplitError, match=r"svhn: expected one of its splits train, test, got 'extra'.*svhn:extra"
    ):
        resolve("svhn", root=tmp_path).open("extra")
    with pytest.raises(UnknownSplitError, match="'val'"):
        resolve("svhn", root=tmp_path).prepare(["val"])
    assert resolve("svhn:extra", root=tmp_path).splits == ("train", "test", "extra")
    with pytest.raises(UnknownSourceError, match="Did you mean `emnist:balanced`"):
        resolve("emnist:balance", root=tmp_path)
    with pytest.raises(UnknownSourceError, match="emnist:byclass"):
        resolve("emnist", root=tmp_path)
    with pytest.raises(UnknownSourceError, match="a variant of cifar10: cifar10,"):
        resolve("cifar10:small", root=tmp_path)


def test_identity_names_and_pickle(tmp_path: Path) -> None:
    source = resolve("emnist:balanced", root=tmp_path, check=False)
    assert isinstance(source, Source)
    assert (source.name, source.declared) == ("emnist-balanced", True)
    assert source.identity() == {"kind": "torchvision", "dataset": "emnist", "variant": "balanced"}
    default = resolve("imagenette:full", root=tmp_path)
    assert default.name == "imagenette"
    assert default.identity() == {"kind": "torchvision", "dataset": "imagenette", "variant": None}
    FAKES["emnist:balanced"](tmp_path)
    again = pickle.loads(pickle.dumps(source))
    assert again.files() == source.files()
    assert again.open("test").classes == source.open("test").classes
    assert resolve("fashion-mnist", root=tmp_path).notes()["licence"] == "MIT"


def test_order_does_not_depend_on_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("omniglot", "sun397", "inaturalist"):
        FAKES[name](tmp_path)
    listed = os.listdir

    def opened() -> list[list[tuple[Any, int]]]:
        sources = [resolve(name, root=tmp_path) for name in ("omniglot", "sun397", "inaturalist")]
        samples = [source.open(source.splits[0]).samples for source in sources]
        pairs = [[some[index] for index in range(len(some))] for some in samples]  # type: ignore[misc]
        return [[(image.tobytes(), label) for image, label in some] for some in pairs]

    forwards = opened()
    monkeypatch.setattr(os, "listdir", lambda *a: sorted(listed(*a), reverse=True))
    assert opened() == forwards


@pytest.mark.parametrize("name", sorted(TABLE))
def test_table_agrees_with_torchvision(name: str) -> None:
    entry = TABLE[name]
    plain = getattr(torchvision.datasets, entry.class_name)
    base = inspect.getsource(sys.modules[plain.__module__])
    rows = [entry, *(replace(entry, **variant) for variant in entry.variants.values())]
    for row in rows:
        for split in row.splits.values():
            inspect.signature(plain).bind("root", **split.options)
            for archive in split.archives:
                assert archive.md5 is None or archive.md5 in base
                assert archive.url is None or archive.url.rpartition("/")[0] in base
    assert all(md5 in base for md5 in entry.md5.values())
    assert (entry.fetch == "download") == (
        "download" in inspect.signature(plain).parameters and name not in ("stanford-cars", "lfw-people")
    ) or name in ("emnist", "qmnist")
    for split in (split for row in rows for split in row.splits.values()):
        assert entry.fetch == "none" or split.archives


def test_every_class_of_pictures_with_labels_is_in_the_table() -> None:
    """A new class of torchvision fails here until it is put into the table or into `OTHERS`."""
    assert {entry.class_name for entry in TABLE.values()} == set(torchvision.datasets.__all__) - set(
        OTHERS.split()
    )
    assert len(names()) == len(set(names()))


@pytest.mark.parametrize(("name", "shape"), [("cifar10", (32, 32, 3)), ("fashion-mnist", (28, 28))])
def test_larger_real_files(name: str, shape: tuple[int, ...]) -> None:
    folder = os.environ.get("DSCOMPILE_TEST_DATA")
    if folder is None:
        pytest.skip("DSCOMPILE_TEST_DATA names no folder with real datasets")
    source = resolve(name, root=Path(folder) / name, check=False)
    for split in source.splits:
        opened = source.open(split)
        assert opened.arrays is not None
        assert opened.arrays["image"].shape[1:] == shape
        for index in range(0, len(opened.samples), 101):
            image, label = opened.samples[index]
            np.testing.assert_array_equal(np.asarray(image), opened.arrays["image"][index], strict=True)
            assert label == opened.arrays["label"][index]
