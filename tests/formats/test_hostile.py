"""Shards made to deceive, and disks without room: each is one error of dscompile."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import broken
import numpy as np
import pytest
import torch
from checks import PLAIN, made

from dscompile.artifact.fields import Field
from dscompile.artifact.manifest import Manifest
from dscompile.errors import ShardError, StoreError
from dscompile.formats import format_of
from dscompile.formats.verify import verify

pytestmark = pytest.mark.usefixtures("no_open_files")
FIELDS = (Field("image", "uint8", (3, 4)), Field("label", "int64", (), python="int"))


def soft(file: Any, outside: Path) -> None:
    import h5py

    file["copy"] = file["image"]
    del file["image"]
    file["image"] = h5py.SoftLink("/copy")


def external_link(file: Any, outside: Path) -> None:
    import h5py

    del file["image"]
    file["image"] = h5py.ExternalLink(str(outside), "image")


def external_bytes(file: Any, outside: Path) -> None:
    del file["image"]
    file.create_dataset("image", (5, 3, 4), "u1", external=[(str(outside), 0, 60)])


def virtual(file: Any, outside: Path) -> None:
    import h5py

    del file["image"]
    layout = h5py.VirtualLayout((5, 3, 4), "u1")
    layout[:] = h5py.VirtualSource(str(outside), "image", (5, 3, 4))
    file.create_virtual_dataset("image", layout)


def group(file: Any, outside: Path) -> None:
    del file["image"]
    file.create_group("image")


def other_type(file: Any, outside: Path) -> None:
    del file["image"]
    file.create_dataset("image", (5, 3, 4), "i1", chunks=(5, 3, 4))


def other_shape(file: Any, outside: Path) -> None:
    del file["image"]
    file.create_dataset("image", (5, 4, 3), "u1", chunks=(5, 4, 3))


def other_layout(file: Any, outside: Path) -> None:
    chunks = file["image"].chunks
    del file["image"]
    file.create_dataset("image", (5, 3, 4), "u1", chunks=None if chunks else (1, 3, 4))


def other_kind_of_type(file: Any, outside: Path) -> None:
    import h5py

    del file["image"]
    file.create_dataset("image", (5, 3, 4), h5py.string_dtype())


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize(
    "change",
    [
        *(soft, external_link, external_bytes, virtual, group, other_type, other_shape, other_layout),
        other_kind_of_type,
    ],
)
def test_a_dataset_is_the_files_own(
    change: Callable[[Any, Path], None], compression: str | None, tmp_path: Path
) -> None:
    import h5py
    from checks import rows_of, write_shard

    container = format_of("hdf5", compression)
    rows = {item.name: rows_of(item, 5) for item in FIELDS}
    path, outside = tmp_path / "s.h5", tmp_path / "outside.h5"
    shard = write_shard(path, container, FIELDS, rows)
    outside.write_bytes(path.read_bytes())
    container.check(path, shard, FIELDS)
    with h5py.File(path, "r+") as file:
        change(file, outside)
    with pytest.raises(ShardError, match="dataset 'image'"):
        container.check(path, shard, FIELDS)
    if compression:
        with pytest.raises(ShardError, match="dataset 'image'"):
            container.map(path, shard, FIELDS)


def test_a_compressed_shard_with_another_digest_is_not_handed_to_h5py(tmp_path: Path) -> None:
    import dscompile

    path = dscompile.build(
        broken.Pictures(), store=tmp_path, name="pictures", format="hdf5", compression="gzip"
    ).path
    assert verify(path, Manifest.read(path)) == []
    broken.flipped(lambda folder: -3)(path)
    (problem,) = verify(path, Manifest.read(path))
    assert problem.expected.startswith("SHA-256 ")
    assert problem.field is None


def test_an_unreadable_shard_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = broken.sound(tmp_path, "pt")

    def denied(file: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("dscompile.formats.verify.file_sha256", denied)
    problems = verify(path, Manifest.read(path))
    assert {problem.shard for problem in problems} == {f"train-0000{n}-of-00003.pt" for n in range(3)}
    assert {problem.got for problem in problems} == {"Permission denied"}


def test_progress_counts_files_and_blocks(tmp_path: Path) -> None:
    path = broken.sound(tmp_path, "lmdb")
    seen: list[tuple[str, int, int]] = []
    assert verify(path, Manifest.read(path), progress=lambda *step: seen.append(step)) == []
    assert seen == [(step, n, 3) for step in ("shards", "blocks") for n in (1, 2, 3)]


def test_lmdb_regions_of_two_fields_are_not_exchanged(tmp_path: Path) -> None:
    fields = (Field("a", "uint8", (3,)), Field("b", "uint8", (3,)))
    path, shard, _ = made(tmp_path, "lmdb", fields, 5)
    container = format_of("lmdb")
    container.check(path, shard, fields)
    exchanged = shard._replace(regions={"a": shard.regions["b"], "b": shard.regions["a"]})
    with pytest.raises(ShardError, match="field 'a'"):
        container.check(path, exchanged, fields)
    same = shard._replace(regions={"a": shard.regions["a"], "b": shard.regions["a"]})
    with pytest.raises(ShardError, match="field 'b'"):
        container.check(path, same, fields)


@pytest.mark.parametrize("span", [0, 2, 0xFFFFFFFF])
def test_lmdb_pages_of_garbage_are_refused(span: int, tmp_path: Path) -> None:
    path, shard, _ = made(tmp_path, "lmdb", FIELDS, 5)
    start = shard.regions["image"][0]
    with path.open("r+b") as file:
        file.seek(start - 4)
        file.write(struct.pack("<I", span))
    with pytest.raises(ShardError, match="field 'image'"):
        format_of("lmdb").check(path, shard, FIELDS)


def test_lmdb_with_a_description_larger_than_a_page(tmp_path: Path) -> None:
    fields = tuple(Field(f"a_long_name_of_field_{n:03d}", "uint8", (2,)) for n in range(150))
    path, shard, rows = made(tmp_path, "lmdb", fields, 3)
    format_of("lmdb").check(path, shard, fields)
    assert PLAIN["lmdb"](path, fields) == {key: value.tobytes() for key, value in rows.items()}


def test_lmdb_without_room_for_its_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, start: int, size: int) -> None:
        assert size >= 5 * 12 + 5 * 8
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreError) as caught:
        format_of("lmdb").create(tmp_path / "s.lmdb", FIELDS, 5)
    assert str(caught.value) == (
        f"{tmp_path / 's.lmdb'}: expected room for a shard of 100 bytes, got No space left on device. "
        "Free space, or choose another --store."
    )
    assert list(tmp_path.iterdir()) == []


def test_lmdb_on_a_file_system_that_reserves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(handle: int, start: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unknown)
    path, shard, _ = made(tmp_path, "lmdb", FIELDS, 5)
    format_of("lmdb").check(path, shard, FIELDS)


@pytest.mark.parametrize("name", ["pt", "hdf5", "lmdb"])
def test_a_file_that_may_not_grow_is_a_store_error(name: str, tmp_path: Path) -> None:
    """A limit of the file size stands for the full disk: the libraries meet it at the same calls."""
    code = f"""
import os, resource, sys
from pathlib import Path
from dscompile.artifact.fields import Field
from dscompile.errors import StoreError
from dscompile.formats import format_of
import torch, h5py, lmdb
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
try:
    format_of({name!r}).create(Path({str(tmp_path)!r}) / "s", (Field("x", "uint8", (1000,)),), 1000)
except StoreError as error:
    print(error, flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "/s: expected room for a shard of 1,000,000 bytes, got " in done.stdout, done.stderr
    assert done.stdout.endswith("Free space, or choose another --store.\n")


@pytest.mark.parametrize("name", ["pt", "hdf5", "lmdb"])
def test_a_path_of_any_letters_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    for folder in ("plain", "größe 訓練"):
        (tmp_path / folder).mkdir()
    path, shard, rows = made(tmp_path / "größe 訓練", name, FIELDS, 4)
    format_of(name).check(path, shard, FIELDS)
    assert PLAIN[name](path, FIELDS) == {key: value.tobytes() for key, value in rows.items()}
    assert made(tmp_path / "plain", name, FIELDS, 4)[0].read_bytes() == path.read_bytes()
    renamed = path.rename(path.with_name(f"other{path.suffix}"))
    format_of(name).check(renamed, shard, FIELDS)


def test_pt_shards_are_laid_out_with_holes(tmp_path: Path) -> None:
    path = tmp_path / "s.pt"
    format_of("pt").create(path, (Field("x", "uint8", (1 << 20,)),), 256)
    assert path.stat().st_size > 256 << 20
    assert path.stat().st_blocks * 512 < 1 << 20
    assert torch.load(path, weights_only=True, mmap=True)["x"].shape == (256, 1 << 20)


def test_pt_directories_of_garbage_are_one_error(tmp_path: Path) -> None:
    path, shard, _ = made(tmp_path, "pt", FIELDS, 4)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        directory = archive.start_dir
    random, container, refused = np.random.default_rng(0), format_of("pt"), 0
    for at in range(directory, len(data)):
        changed = bytearray(data)
        changed[at] = int(random.integers(256))
        path.write_bytes(changed)
        try:
            container.check(path, shard, FIELDS)
        except ShardError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("offset", "value"), [(6, b"\xff\x7f"), (46, b"\xff\xff")], ids=["version", "name that is no text"]
)
def test_what_zipfile_does_not_know_is_one_error(offset: int, value: bytes, tmp_path: Path) -> None:
    path, shard, _ = made(tmp_path, "pt", FIELDS, 4)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        entry = archive.start_dir
    data[entry + offset : entry + offset + 2] = value
    if offset == 46:
        data[entry + 8 : entry + 10] = b"\x00\x08"  # the name is said to be UTF-8
    path.write_bytes(data)
    with pytest.raises(ShardError, match="zip layout"):
        format_of("pt").check(path, shard, FIELDS)
