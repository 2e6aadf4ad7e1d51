"""Recipe ids: equal for equal recipes on any machine, different for whatever changes the bytes; and hits."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from objects import Items, Pictures, shard_bytes
from torchvision import transforms

import dscompile
from dscompile.artifact.manifest import Manifest
from dscompile.errors import OptionError, UnknownSourceError, UnknownSplitError

pytestmark = pytest.mark.usefixtures("no_open_files")
SMALL = "synthetic:train=12,test=6,size=8"


def recipe_id(source: Any, store: Path, **options: Any) -> str:
    return dscompile.build(source, store=store, **options).manifest.recipe_id


def shrink(picture: Any) -> Any:
    return picture.resize((4, 4))


CHANGES: list[dict[str, Any]] = [
    {"dtype": "float16"},
    {"dtype": "uint8"},
    {"layout": "HWC"},
    {"normalize": "none"},
    {"normalize": "imagenet"},
    {"normalize": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))},
    {"normalize": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.25))},
    {"normalize": ((0.5, 0.5, 0.25), (0.5, 0.5, 0.5))},
    {"resize": 6},
    {"resize": 7},
    {"crop": 6},
    {"split": "train"},
    {"split": "test"},
    {"limit": 5},
    {"shard_bytes": 4096},
    {"allow_nonfinite": True},
    {"version": "1"},
    {"version": "2"},
    {"transform": shrink},
    {"transform": transforms.Grayscale()},
    {"transform": transforms.Grayscale(3)},
    {"format": "hdf5"},
    {"format": "lmdb"},
]


def test_each_option_makes_another_recipe(store: Path) -> None:
    ids = [recipe_id(SMALL, store)] + [recipe_id(SMALL, store, **options) for options in CHANGES]
    assert len(set(ids)) == len(ids)
    for options, expected in zip(CHANGES, ids[1:], strict=True):
        again = dscompile.build(SMALL, store=store, **options)
        assert (again.built, again.manifest.recipe_id) == (False, expected)


def test_what_does_not_change_the_bytes_keeps_the_recipe(tmp_path: Path) -> None:
    same: list[dict[str, Any]] = [
        {},
        {"workers": 1},
        {"workers": 3},
        {"name": "another"},
        {"split": ["train", "test"]},
        {"split": ("test", "train")},
        {"dtype": "float32", "layout": "CHW", "normalize": "dataset"},
        {"progress": lambda split, done, total: None},
        {"root": tmp_path},
    ]
    ids = {recipe_id(SMALL, tmp_path / str(n), **options) for n, options in enumerate(same)}
    assert len(ids) == 1


def test_the_order_of_a_dict_of_splits_does_not_matter(store: Path) -> None:
    train, test = Pictures(4), Pictures(3, seed=1)
    one = recipe_id({"train": train, "test": test}, store)
    assert recipe_id({"test": test, "train": train}, store) == one
    assert recipe_id({"train": test, "test": train}, store) != one


def test_lists_and_tuples_of_constants_are_one(store: Path) -> None:
    ids = {
        recipe_id(SMALL, store, normalize=kind([kind([0, 0, 0]), kind([1, 1, 1.0])]))
        for kind in (list, tuple)
    }
    assert len(ids) == 1


def test_the_id_is_the_digest_of_the_recorded_recipe(store: Path) -> None:
    import json

    manifest = dscompile.build(SMALL, store=store, resize=6, crop=5).manifest
    text = json.dumps(manifest.recipe, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == manifest.recipe_id
    assert [step["step"] for step in manifest.recipe["steps"]] == [
        *("decode", "resize", "crop", "convert", "normalize", "layout")
    ]


def test_the_id_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\nclass Mine:\n"
        "    def __init__(self): self.table = {'b': {1, 2}, 'a': {'x', 'y', 'z'}}\n"
        "    def __len__(self): return 3\n"
        "    def __getitem__(self, index): return torch.full((2,), float(index)), index\n"
    )
    code = "import dscompile, sys; print(dscompile.build(sys.argv[1], store='store').path.name)"
    found = set()
    for seed, source in (
        ("0", "../mine.py:Mine"),
        ("1", str(tmp_path / "mine.py") + ":Mine"),
        ("2", "../mine.py:Mine"),
    ):
        folder = tmp_path / seed
        folder.mkdir()
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, source]
        found.add(subprocess.check_output(command, cwd=folder, env=environment, text=True))
    assert len(found) == 1


def test_a_second_build_reads_no_sample(store: Path) -> None:
    # BR-54
    class Counted(Items):
        reads = 0

        def __getitem__(self, index: int) -> Any:
            type(self).reads += 1
            return super().__getitem__(index)

    dataset = Counted([(torch.full((2,), float(n)), n) for n in range(5)])
    first = dscompile.build(dataset, store=store, workers=1, version="1")
    Counted.reads = 0
    second = dscompile.build(Counted(dataset.items), store=store, version="1")
    assert (first.built, second.built, Counted.reads) == (True, False, 0)
    assert second.manifest == first.manifest


def test_changed_source_files_make_another_artifact(cifar_root: Path, store: Path) -> None:
    def build(**options: Any) -> dscompile.Artifact:
        return dscompile.build("cifar10", root=cifar_root, store=store, source_check=False, **options)

    first = build()
    assert not build().built
    file = cifar_root / "cifar-10-batches-py" / "data_batch_2"
    data = bytearray(file.read_bytes())
    data[2000] ^= 0x01  # a pixel
    file.write_bytes(data)
    second = build()
    assert second.built
    assert second.manifest.content_digest != first.manifest.content_digest
    assert Manifest.read(first.path) == first.manifest


def test_the_files_of_splits_that_are_not_read_do_not_count(cifar_root: Path, store: Path) -> None:
    def build() -> dscompile.Artifact:
        options: dict[str, Any] = {"normalize": "none", "split": "test", "source_check": False}
        return dscompile.build("cifar10", root=cifar_root, store=store, **options)

    first = build()
    (cifar_root / "cifar-10-batches-py" / "data_batch_2").unlink()
    assert build().manifest.recipe_id == first.manifest.recipe_id


def test_the_training_split_counts_where_its_statistics_are_used(store: Path) -> None:
    test = Pictures(3)
    ids = {
        recipe_id({"train": Pictures(4, seed=seed), "test": test}, store, split="test", normalize="dataset")
        for seed in (1, 1, 2)
    }
    assert len(ids) == 2
    plain = {
        recipe_id({"train": Pictures(4, seed=seed), "test": test}, store, split="test") for seed in (1, 1, 2)
    }
    assert len(plain) == 1


def test_equal_recipes_give_equal_bytes_anywhere(tmp_path: Path) -> None:
    first = dscompile.build(SMALL, store=tmp_path / "a", workers=1, shard_bytes=3000)
    second = dscompile.build(
        SMALL, store=tmp_path / "b" / "deeper", workers=3, shard_bytes=3000, name="other"
    )
    assert len(shard_bytes(first.path)) == 4 + 2
    assert shard_bytes(first.path) == shard_bytes(second.path)
    assert first.manifest.content_digest == second.manifest.content_digest


def test_the_three_containers_have_one_content(store: Path) -> None:
    digests = {
        dscompile.build(SMALL, store=store, format=name).manifest.content_digest
        for name in ("pt", "hdf5", "lmdb")
    }
    assert len(digests) == 1
    assert dscompile.open("synthetic", "train", store=store).manifest.container == "pt"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "zip"}, "'zip'"),
        ({"dtype": "float64"}, "'float64'"),
        ({"dtype": torch.int16}, "int16"),
        ({"layout": "NHWC"}, "'NHWC'"),
        ({"resize": 0}, "resize"),
        ({"resize": -3}, "resize"),
        ({"resize": 2.5}, r"2\.5"),
        ({"crop": True}, "crop"),
        ({"limit": 0}, "limit"),
        ({"shard_bytes": 0}, "shard_bytes"),
        ({"shard_bytes": 1e9}, "shard_bytes"),
        ({"workers": 0}, "workers"),
        ({"workers": -1}, "workers"),
        ({"workers": True}, "workers"),
        ({"normalize": "mean"}, "'mean'"),
    ],
)
def test_options_out_of_range_are_refused_by_name(options: dict[str, Any], message: str, store: Path) -> None:
    with pytest.raises(OptionError, match=message):
        dscompile.build(SMALL, store=store, **options)
    assert not store.exists()


def test_unknown_names_are_refused_with_what_there_is(store: Path) -> None:
    with pytest.raises(UnknownSourceError, match="`cifar10`"):
        dscompile.build("cifar-10", store=store)
    with pytest.raises(UnknownSplitError, match="train, test"):
        dscompile.build(SMALL, split="validation", store=store)
    with pytest.raises(UnknownSplitError, match="'val'"):
        dscompile.build({"train": Pictures(3)}, split=["train", "val"], store=store)
    assert not store.exists()
