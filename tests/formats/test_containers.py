"""The containers side by side: equal content, conversion, compression, and many readers of one artifact."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dscompile
from dscompile.artifact.manifest import Manifest
from dscompile.errors import DigestError, OptionError, ShardError
from dscompile.formats.verify import verify

CONTAINERS = ("pt", "hdf5", "lmdb")
SPEC = "synthetic:train=600,test=40,size=8"


class Numbers:
    """Rows of every dtype, with values at the ends of their ranges; bfloat16 among them."""

    def __len__(self) -> int:
        return 23

    def __getitem__(self, index: int) -> dict[str, Any]:
        step = torch.arange(6).view(2, 3) + index
        return {
            "uint8": (step * 40 % 256).to(torch.uint8),
            "float16": (step / 7).to(torch.float16),
            "bfloat16": (step / 7).to(torch.bfloat16),
            "float32": step / 7,
            "int64": step * (1 << 60),
            "bool": step % 2 == 0,
            "flag": index % 3 == 0,
            "score": index / 7,
            "label": index - 5,
        }


def build(store: Path, container: str, **options: Any) -> dscompile.Artifact:
    return dscompile.build(SPEC, store=store, format=container, **options)


def same(one: Any, other: Any) -> bool:
    """Whether two batches are equal bit for bit, structure included."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one.dtype == other.dtype and torch.equal(one, other))


@pytest.mark.parametrize("shard_bytes", [1 << 30, 700])
def test_equal_content_in_every_container(shard_bytes: int, store: Path) -> None:
    artifacts = [
        dscompile.build(Numbers(), store=store, format=container, shard_bytes=shard_bytes, name="numbers")
        for container in CONTAINERS
    ]
    digests = {artifact.manifest.content_digest for artifact in artifacts}
    assert len(digests) == 1
    shards = {len(artifact.manifest.splits["train"].shards) for artifact in artifacts}
    assert shards == ({1} if shard_bytes > 700 else {5})
    plain = [Numbers()[index] for index in range(23)]
    for artifact in artifacts:
        with artifact.open() as dataset:
            for index, sample in enumerate(plain):
                found = dataset[index]
                assert list(found) == list(sample)
                for name, value in sample.items():
                    assert type(found[name]) is type(value)
                    assert torch.equal(torch.as_tensor(found[name]), torch.as_tensor(value))
                    assert torch.as_tensor(found[name]).dtype == torch.as_tensor(value).dtype
            order = [22, 0, 5, 5, 17, 4, 11]
            gathered = dataset[order]
            assert torch.equal(gathered["bfloat16"], torch.stack([plain[i]["bfloat16"] for i in order]))


def test_batches_are_equal_for_any_container_and_shard_size(store: Path) -> None:
    epochs = []
    for container in CONTAINERS:
        for shard_bytes in (1 << 30, 50_000):
            artifact = build(store, container, shard_bytes=shard_bytes)
            loader = artifact.open("train").loader(64, shuffle=True, seed=3)
            epochs.append([(images.clone(), labels.clone()) for images, labels in loader])
    for epoch in epochs[1:]:
        assert all(same(one, other) for one, other in zip(epochs[0], epoch, strict=True))


def test_open_by_name_takes_pt_before_hdf5_before_lmdb(store: Path) -> None:
    for container in reversed(CONTAINERS):
        build(store, container)
        assert dscompile.open("synthetic", "train", store=store).manifest.container == container


@pytest.mark.parametrize("target", CONTAINERS)
@pytest.mark.parametrize("origin", CONTAINERS)
def test_conversion_keeps_the_content(origin: str, target: str, store: Path, tmp_path: Path) -> None:
    parent = build(store, origin)
    child = dscompile.convert(
        parent.path, format=target, shard_bytes=60_000, name="child", store=tmp_path / "other"
    )
    assert child.manifest.content_digest == parent.manifest.content_digest
    assert child.manifest.fields == parent.manifest.fields
    assert child.manifest.parent == {
        "recipe_id": parent.manifest.recipe_id,
        "content_digest": parent.manifest.content_digest,
        "container": origin,
    }
    assert same(child.open("train")[:], parent.open("train")[:])
    assert verify(child.path, child.manifest) == []
    assert not dscompile.convert(
        parent.path, format=target, shard_bytes=60_000, name="child", store=tmp_path / "other"
    ).built


def test_conversion_of_dtypes(store: Path) -> None:
    parent = build(store, "pt")
    images, _ = parent.open("train")[:]
    half = dscompile.convert(parent.path, dtype="float16", name="half", store=store)
    assert torch.equal(half.open("train")[:][0], images.to(torch.float16))
    small = build(store, "pt", dtype="uint8", name="small")
    grown = dscompile.convert(small.path, dtype="float32", name="grown", store=store)
    assert torch.equal(grown.open("train")[:][0], images)
    assert grown.manifest.content_digest == parent.manifest.content_digest
    with pytest.raises(OptionError, match="cannot become bytes again"):
        dscompile.convert(parent.path, dtype="uint8", name="no", store=store)
    assert not (store / "no").exists()


def test_a_damaged_parent_is_not_converted(store: Path) -> None:
    parent = build(store, "pt")
    shard = parent.manifest.splits["train"].shards[0]
    with (parent.path / shard.path).open("r+b") as file:
        file.seek(shard.regions["image"][0] + 5)
        file.write(b"\x55")
    with pytest.raises(DigestError, match="rows 0 to"):
        dscompile.convert(parent.path, format="hdf5", store=store, name="child")
    assert not (store / "child").exists()


@pytest.mark.parametrize("compression", ["gzip", "lzf"])
def test_compressed_shards_hold_the_same_samples(
    compression: str, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import h5py

    plain = build(store, "hdf5")
    packed = build(store, "hdf5", compression=compression, shard_bytes=200_000)
    assert "cannot be mapped" in caplog.text
    assert packed.manifest.content_digest == plain.manifest.content_digest
    assert packed.manifest.bytes_on_disk < plain.manifest.bytes_on_disk
    assert verify(packed.path, packed.manifest) == []
    with packed.open("train") as dataset:
        assert same(dataset[:], plain.open("train")[:])
        assert same(dataset[[599, 0, 300, 300]], plain.open("train")[[599, 0, 300, 300]])
        assert dataset[-1][1] == plain.open("train")[599][1]
        loader = torch.utils.data.DataLoader(dataset, batch_size=100, num_workers=2)
        labels = torch.cat([labels for _, labels in loader])
    assert labels.tolist() == plain.open("train").targets
    shard = packed.manifest.splits["train"].shards[0]
    with h5py.File(packed.path / shard.path, "r") as file:
        assert file["image"].compression == compression
        assert file["image"].chunks == (65536 // (3 * 8 * 8 * 4), 3, 8, 8)


def test_compression_is_for_hdf5_alone(store: Path) -> None:
    for container in ("pt", "lmdb"):
        with pytest.raises(OptionError, match="format hdf5 with gzip or lzf"):
            build(store, container, compression="gzip")
    assert not store.exists()


def test_damage_in_a_compressed_chunk_is_one_error(store: Path) -> None:
    packed = build(store, "hdf5", compression="gzip")
    file = packed.path / packed.manifest.splits["train"].shards[0].path
    data = bytearray(file.read_bytes())
    data[len(data) // 3 : len(data) // 3 + 400] = bytes(400)
    file.write_bytes(data)
    assert verify(packed.path, packed.manifest)
    with packed.open("train") as dataset, pytest.raises(ShardError, match="chunks that can be read"):
        dataset[:]


@pytest.mark.parametrize("container", CONTAINERS)
def test_other_tools_read_a_shard(container: str, store: Path) -> None:
    """h5dump, mdb_stat and unzip are asked where they are installed; the libraries' own checks always."""
    import shutil

    artifact = build(store, container)
    shard = artifact.path / artifact.manifest.splits["train"].shards[0].path
    tool = {"pt": ["unzip", "-t"], "hdf5": ["h5dump", "-H"], "lmdb": ["mdb_stat", "-n"]}[container]
    if shutil.which(tool[0]):
        subprocess.run([*tool, shard], check=True, stdout=subprocess.DEVNULL)
    if container == "pt":
        assert set(torch.load(shard, weights_only=True, mmap=True)) == {"image", "label"}
    elif container == "hdf5":
        import h5py

        with h5py.File(shard, "r") as file:
            assert file["image"].shape == (600, 3, 8, 8)
            assert file["image"].attrs["dtype"] == "float32"
            assert file["image"].attrs["layout"] == "CHW"
            assert file["label"].attrs["classes"].tolist() == artifact.open("train").classes
            norm = artifact.manifest.fields[0].normalisation
            assert norm is not None
            assert file["image"].attrs["mean"].tolist() == list(norm.mean)
    else:
        import lmdb

        with lmdb.open(str(shard), subdir=False, readonly=True, lock=False) as environment:
            assert environment.stat()["entries"] == 3


def test_bfloat16_is_named_by_an_attribute(store: Path) -> None:
    import h5py

    artifact = dscompile.build(Numbers(), store=store, format="hdf5", name="numbers")
    with h5py.File(artifact.path / "train-00000-of-00001.h5", "r") as file:
        assert file["bfloat16"].dtype == np.uint16
        assert file["bfloat16"].attrs["dtype"] == "bfloat16"
        assert file["bool"].dtype == np.bool_


def _labels(path: str, queue: Any) -> None:
    torch.set_num_threads(1)  # a forked process must not wait for its parent's threads
    dataset = dscompile.open(path, "train")
    queue.put([int(label) for _, batch in dataset.loader(37) for label in batch])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_many_processes_read_one_artifact(container: str, method: str, store: Path) -> None:
    """16 forked readers, or 3 of those that start slowly; the folder is read-only and stays as it is."""
    artifact = build(store, container)
    expected = artifact.open("train").targets
    for file in [*artifact.path.iterdir(), artifact.path]:
        file.chmod(0o555 if file.is_dir() else 0o444)
    before = sorted((file.name, file.stat().st_mtime_ns) for file in artifact.path.iterdir())
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    processes = [
        context.Process(target=_labels, args=(str(artifact.path), queue))
        for _ in range(16 if method == "fork" else 3)
    ]
    for process in processes:
        process.start()
    assert all(queue.get(timeout=60) == expected for _ in processes)
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sorted((file.name, file.stat().st_mtime_ns) for file in artifact.path.iterdir()) == before
    artifact.path.chmod(0o755)


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_reader_survives_removal_and_replacement(container: str, store: Path) -> None:
    artifact = build(store, container)
    dataset = artifact.open("train")
    before = dataset[:]
    artifact.path.rename(artifact.path.with_name("elsewhere"))
    assert same(dataset[:], before)
    moved = dscompile.open(artifact.path.with_name("elsewhere"), "train")
    for file in artifact.path.with_name("elsewhere").iterdir():
        if file.name != "manifest.json":
            file.unlink()
    assert same(dataset[[5, 4]], dataset[[5, 4]])
    with pytest.raises(ShardError, match="No such file"):
        moved[0]


@pytest.mark.parametrize("container", CONTAINERS)
def test_reading_needs_neither_h5py_nor_lmdb(container: str, store: Path) -> None:
    artifact = build(store, container)
    code = f"""
import sys, dscompile
next(iter(dscompile.open({str(artifact.path)!r}, "train").loader(8)))
print(sorted(set(sys.modules) & {{"h5py", "lmdb", "torchvision", "PIL", "click"}}))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_one_tiny_sample_makes_no_large_file(store: Path) -> None:
    artifact = dscompile.build([(np.zeros((1, 1, 1), np.uint8), 1)], store=store, format="lmdb", name="tiny")
    size = os.path.getsize(artifact.path / "train-00000-of-00001.lmdb")
    assert size == 5 * 4096  # two meta pages, the tree with the description, a page for each field


def test_verify_names_field_rows_and_shard(store: Path) -> None:
    artifact = build(store, "lmdb", shard_bytes=100_000)
    manifest = Manifest.read(artifact.path)
    shard = manifest.splits["train"].shards[3]
    with (artifact.path / shard.path).open("r+b") as file:
        file.seek(shard.regions["label"][0] + 8)
        file.write(b"\x07")
    (problem,) = verify(artifact.path, manifest)
    assert (problem.shard, problem.field) == (shard.path, "label")
    assert problem.rows is not None
    first, last = problem.rows
    assert first <= shard.first + 1 <= last


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=["mapped", "compressed"])
def test_hdf5_keeps_no_time_stamp(options: dict[str, str], store: Path, tmp_path: Path) -> None:
    """Two builds at different times, seconds apart by the clock, give the same bytes."""
    first = build(store, "hdf5", **options)
    time.sleep(1.1)  # HDF5's time stamps count seconds
    again = build(tmp_path / "later", "hdf5", **options)
    for shard in first.manifest.splits["train"].shards:
        assert (first.path / shard.path).read_bytes() == (again.path / shard.path).read_bytes()
