"""`CompiledDataset`: samples and batches as the user's own, from any process, wherever the artifact lies."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from objects import Items, Pictures
from torch.utils.data import DataLoader, Subset

import dscompile
from dscompile.errors import ClosedError, OptionError, ShardError, UnknownSplitError
from dscompile.formats.verify import verify

pytestmark = pytest.mark.usefixtures("no_open_files")
COUNT = 11


@pytest.fixture(scope="module", params=["pt, one shard", "pt, four shards", "hdf5", "lmdb", "gzip"])
def artifact(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dscompile.Artifact:
    name, _, cut = request.param.partition(", ")
    options: dict[str, Any] = {"format": name, "shard_bytes": 3 * 180 if cut == "four shards" else 1 << 30}
    if name == "gzip":
        options.update(format="hdf5", compression="gzip")
    rows = [
        (image, n % 3, torch.tensor(n / 2), n / 4, n > 5)
        for n, (image, _) in enumerate(Pictures(COUNT).items)
    ]
    return dscompile.build(
        Items(rows), store=tmp_path_factory.mktemp("store"), name="mixed", workers=1, **options
    )


def expected(index: int) -> tuple[torch.Tensor, int, torch.Tensor, float, bool]:
    pixels = torch.from_numpy(Pictures(COUNT).pixels[index]).permute(2, 0, 1)
    return pixels, index % 3, torch.tensor(index / 2), index / 4, index > 5


def same(found: Any, index: int) -> bool:
    one = expected(index)
    plain = [(type(item), item) for item in found[1:] if not isinstance(item, torch.Tensor)]
    return (
        torch.equal(found[0], one[0])
        and torch.equal(found[2], one[2])
        and plain == [(type(item), item) for item in (one[1], one[3], one[4])]
    )


def test_every_sample_comes_back(artifact: dscompile.Artifact) -> None:
    with artifact.open() as dataset:
        assert len(dataset) == COUNT
        assert all(same(dataset[index], index) for index in range(COUNT))
        assert all(same(sample, index) for index, sample in enumerate(dataset))
        assert dataset.targets == [index > 5 for index in range(COUNT)]


@pytest.mark.parametrize(
    ("index", "position"),
    [
        (-1, 10),
        (-11, 0),
        (np.int64(3), 3),
        (np.uint8(7), 7),
        (torch.tensor(4), 4),
        (torch.tensor(-2), 9),
        (True, 1),
    ],
)
def test_indices_of_any_kind(index: Any, position: int, artifact: dscompile.Artifact) -> None:
    with artifact.open() as dataset:
        assert same(dataset[index], position)


@pytest.mark.parametrize("index", [11, -12, 10**30, [0, 11], [-12], np.int64(11)], ids=repr)
def test_an_index_outside_says_what_is_inside(index: Any, artifact: dscompile.Artifact) -> None:
    with artifact.open() as dataset, pytest.raises(IndexError, match="expected -11 to 10"):
        dataset[index]


@pytest.mark.parametrize("index", [1.0, "1", None, [0.5], [True, False], torch.zeros(2, 2), {}], ids=repr)
def test_what_is_no_index_is_refused(index: Any, artifact: dscompile.Artifact) -> None:
    with artifact.open() as dataset, pytest.raises(OptionError):
        dataset[index]


BATCHES: list[tuple[Any, list[int]]] = [
    ([3, 1, 2], [3, 1, 2]),
    ((3, 3, -1), [3, 3, 10]),
    (np.array([10, 0]), [10, 0]),
    (np.array([1], np.uint16), [1]),
    (torch.tensor([5, -5]), [5, 6]),
    (range(2, 6), [2, 3, 4, 5]),
    (slice(None), list(range(COUNT))),
    (slice(8, None), [8, 9, 10]),
    (slice(None, None, -3), [10, 7, 4, 1]),
    (slice(1, 9, 4), [1, 5]),
    (slice(-3, 100), [8, 9, 10]),
    (slice(4, 4), []),
    (slice(7, 2), []),
    (slice(2, 7, -1), []),
    (slice(100, None), []),
    ([], []),
    ((), []),
    (np.array([], np.int64), []),
    (np.array([]), []),
]


@pytest.mark.parametrize(("index", "positions"), BATCHES, ids=repr)
def test_batches_are_stacked_samples(index: Any, positions: list[int], artifact: dscompile.Artifact) -> None:
    with artifact.open() as dataset:
        found = dataset[list(index) if isinstance(index, range) else index]
    assert [item.dtype for item in found] == [
        torch.uint8,
        torch.int64,
        torch.float32,
        torch.float32,
        torch.bool,
    ]
    assert found[0].shape == (len(positions), 3, 6, 9)
    for column, item in enumerate(found):
        assert len(item) == len(positions)
        for place, position in enumerate(positions):
            assert torch.equal(item[place], torch.as_tensor(expected(position)[column], dtype=item.dtype))


def test_getitems_gives_a_list_of_samples(artifact: dscompile.Artifact) -> None:
    with artifact.open() as dataset:
        found = dataset.__getitems__([4, 0, -1])
        assert [same(sample, index) for sample, index in zip(found, (4, 0, 10), strict=True)] == [True] * 3
        assert dataset.__getitems__([]) == []


@pytest.mark.parametrize("get", ["one", "batch", "slice", "many", "loader"])
def test_writing_into_a_sample_changes_nothing_else(get: str, artifact: dscompile.Artifact) -> None:
    # BR-60
    with artifact.open() as dataset, warnings.catch_warnings():
        warnings.simplefilter("error")
        takes = {
            "one": lambda: [dataset[index][0] for index in (0, 1)],
            "batch": lambda: [dataset[[0, 1]][0]],
            "slice": lambda: [dataset[:2][0]],
            "many": lambda: [sample[0] for sample in dataset.__getitems__([0, 1])],
            "loader": lambda: [batch[0] for batch in dataset.loader(2)],
        }
        for tensor in takes[get]():
            tensor.add_(1)
            tensor.numpy()[...] = 0
        assert same(dataset[0], 0)
        assert same(dataset[1], 1)
    assert verify(artifact.path, artifact.manifest) == []


def test_samples_gotten_together_are_their_own(artifact: dscompile.Artifact) -> None:
    with artifact.open() as dataset:
        first, second = dataset.__getitems__([0, 0])
        first[0].zero_()
        assert same(second, 0)


def test_a_reader_pickles_small_before_and_after_use(artifact: dscompile.Artifact) -> None:
    dataset = artifact.open()
    before = pickle.dumps(dataset)
    assert same(dataset[3], 3)
    after = pickle.dumps(dataset)
    assert before == after
    assert len(after) < 500
    again = pickle.loads(after)
    assert same(again[3], 3)
    assert same(dataset[4], 4)


@pytest.mark.parametrize(("workers", "context"), [(0, "fork"), (2, "fork"), (1, "spawn")])
def test_a_dataloader_of_torch(workers: int, context: str, artifact: dscompile.Artifact) -> None:
    # BR-45: the parent has read a sample before the workers start, and goes on afterwards.
    dataset = artifact.open()
    assert same(dataset[0], 0)
    loader = DataLoader(
        dataset,
        batch_size=4,
        num_workers=workers,
        multiprocessing_context=context if workers else None,
        persistent_workers=workers > 0,
    )
    for _ in range(2):
        found = list(loader)
        assert [len(batch[0]) for batch in found] == [4, 4, 3]
        whole = dataset[:]
        for column in range(5):
            joined = torch.cat([batch[column] for batch in found])
            assert torch.equal(joined.to(whole[column].dtype), whole[column])
    del loader
    assert same(dataset[1], 1)
    assert len(Subset(dataset, [1, 2])) == 2


def test_writing_in_workers_changes_nothing(artifact: dscompile.Artifact) -> None:
    dataset = artifact.open()
    loader = DataLoader(
        dataset, batch_size=None, num_workers=2, collate_fn=Zeroed(), multiprocessing_context="fork"
    )
    assert all(not sample[0].any() for sample in loader)
    assert same(dataset[0], 0)
    assert verify(artifact.path, artifact.manifest) == []


class Zeroed:
    def __call__(self, sample: Any) -> Any:
        sample[0].zero_()
        return sample


def test_a_moved_artifact_reads_the_same(
    artifact: dscompile.Artifact, tmp_path: Path, monkeypatch: Any
) -> None:
    # BR-53
    moved = shutil.copytree(artifact.path, tmp_path / "elsewhere" / "named")
    monkeypatch.chdir(tmp_path)
    for path in (moved, "elsewhere/named", "./elsewhere/named/", Path("elsewhere") / "named"):
        dataset = dscompile.open(path)
        monkeypatch.chdir("/")
        assert all(same(dataset[index], index) for index in range(COUNT))
        assert same(pickle.loads(pickle.dumps(dataset))[2], 2)
        monkeypatch.chdir(tmp_path)


def test_a_relative_store(artifact: dscompile.Artifact, tmp_path: Path, monkeypatch: Any) -> None:
    shutil.copytree(artifact.path.parent.parent, tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    dataset = dscompile.open("mixed", store="store")
    monkeypatch.setenv("DSCOMPILE_STORE", "store")
    assert same(dscompile.open("mixed")[1], 1)
    monkeypatch.chdir("/")
    assert same(dataset[1], 1)


def test_an_open_reader_outlives_its_files(artifact: dscompile.Artifact, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(artifact.path, tmp_path / "artifact"))
    dataset = dscompile.open(moved)
    assert same(dataset[0], 0)
    moved.rename(tmp_path / "renamed")
    shutil.rmtree(tmp_path / "renamed")
    assert same(dataset[5], 5)
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickle.dumps(dataset))


def test_a_read_only_folder_for_another_user(artifact: dscompile.Artifact, tmp_path: Path) -> None:
    # BR-44: files 0444 in a folder 0555, read by an ordinary user; nothing is created or touched.
    copied = Path(shutil.copytree(artifact.path, tmp_path / "artifact"))
    for path in copied.iterdir():
        path.chmod(0o444)
    copied.chmod(0o555)
    before = {path: path.stat().st_mtime_ns for path in [copied, *copied.iterdir()]}
    code = (
        "import dscompile, os, sys\n"
        "dataset = dscompile.open(sys.argv[1], store=sys.argv[1] + '/no-store')\n"
        "if os.getuid() == 0:\n"
        "    list(dataset.loader(4))\n"  # imports, while root may read them
        "    dataset = dscompile.open(sys.argv[1])\n"
        "    for path in sys.argv[2:]: os.chmod(path, 0o755)\n"
        "    os.setuid(65534)\n"
        "assert len(list(dataset.loader(4))) == 3\nprint('read')\n"
    )
    open_to_all = [str(parent) for parent in copied.parents if "pytest" in str(parent)]
    try:
        found = subprocess.run(
            [sys.executable, "-c", code, str(copied), *open_to_all],
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.stdout == "read\n", found.stderr
        assert {path: path.stat().st_mtime_ns for path in [copied, *copied.iterdir()]} == before
    finally:
        copied.chmod(0o755)


def test_many_readers_at_once(artifact: dscompile.Artifact) -> None:
    readers = [artifact.open() for _ in range(130)]
    assert all(same(reader[index % COUNT], index % COUNT) for index, reader in enumerate(readers))
    for reader in readers:
        reader.close()


def test_a_closed_reader_says_so(artifact: dscompile.Artifact) -> None:
    dataset = artifact.open()
    batch = dataset[:3]
    with dataset:
        pass
    for use in (
        lambda: dataset[0],
        lambda: dataset[[0]],
        lambda: dataset.targets,
        lambda: next(iter(dataset.loader())),
    ):
        with pytest.raises(ClosedError, match=r"close\(\)"):
            use()
    assert torch.equal(batch[0][0], expected(0)[0])
    assert same(pickle.loads(pickle.dumps(dataset))[0], 0)


def test_splits_are_chosen_by_name_or_default(store: Path) -> None:
    both = dscompile.build({"train": Items([1]), "test": Items([2, 3])}, store=store, name="both")
    one = dscompile.build({"test": Items([2, 3])}, store=store, name="one")
    none = dscompile.build({"first": Items([1]), "second": Items([2])}, store=store, name="none")
    assert [list(item.open()) for item in (both, one)] == [[1], [2, 3]]
    assert list(both.open("test")) == [2, 3]
    with pytest.raises(UnknownSplitError, match="train, test"):
        both.open("val")
    with pytest.raises(UnknownSplitError, match="first, second"):
        none.open()
    with pytest.raises(UnknownSplitError):
        dscompile.open("one", "train", store=store)


@pytest.mark.parametrize("how", ["missing", "short", "long"])
def test_a_shard_of_another_size_is_refused_on_opening(
    how: str, artifact: dscompile.Artifact, tmp_path: Path
) -> None:
    copied = Path(shutil.copytree(artifact.path, tmp_path / "artifact"))
    shard = sorted(path for path in copied.iterdir() if path.suffix != ".json")[-1]
    if how == "missing":
        shard.unlink()
    else:
        os.truncate(shard, shard.stat().st_size + (1 if how == "long" else -1))
    with pytest.raises(ShardError, match=shard.name):
        dscompile.open(copied)


def test_a_reader_describes_itself(artifact: dscompile.Artifact) -> None:
    dataset = artifact.open()
    assert repr(dataset).startswith("CompiledDataset('mixed', 'train', 11 samples, field0: uint8[3, 6, 9]")
    assert [item.name for item in dataset.fields] == [f"field{n}" for n in range(5)]
    assert dataset.classes is None
    assert dataset.class_to_idx is None


def test_samples_without_a_number_have_no_targets(store: Path) -> None:
    dataset = dscompile.compile(Items([torch.zeros(2)] * 2), store=store)
    with pytest.raises(AttributeError, match="no label"):
        dataset.targets  # noqa: B018
    assert not hasattr(dataset, "targets")


def test_a_sample_does_not_keep_a_batch_in_memory(artifact: dscompile.Artifact) -> None:
    dataset = artifact.open()
    assert dataset[3][0].untyped_storage().nbytes() == 3 * 6 * 9
