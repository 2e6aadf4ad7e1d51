"""Each container gives back what was written: to us, to its plain library, and byte by byte again."""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from checks import DTYPES, PLAIN, fields_of, made, rows_of, write_shard

from dscompile.artifact.fields import STORED_AS, Field
from dscompile.artifact.splits import Shard
from dscompile.errors import OptionError, ShardError
from dscompile.formats import TABLE, format_of

pytestmark = pytest.mark.usefixtures("no_open_files")
FORMATS = sorted(TABLE)
FIELDS = fields_of(DTYPES)


@pytest.fixture(params=FORMATS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_container_has_a_plain_reader() -> None:
    assert sorted(PLAIN) == FORMATS


def test_an_unknown_container_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match="'zarr'"):
        format_of("zarr")


@pytest.mark.parametrize("samples", [1, 2, 37])
def test_rows_come_back_as_written(name: str, samples: int, tmp_path: Path) -> None:
    path, shard, rows = made(tmp_path, name, FIELDS, samples)
    container = format_of(name)
    container.check(path, shard, FIELDS)
    mapped = container.map(path, shard, FIELDS)
    assert sorted(mapped) == sorted(rows)
    for item in FIELDS:
        found = mapped[item.name]
        assert found.dtype == np.dtype(STORED_AS[item.dtype])
        assert found.shape == (samples, *item.shape)
        assert found[:].tobytes() == rows[item.name].tobytes()


def test_the_plain_library_reads_the_same_bytes(name: str, tmp_path: Path) -> None:
    path, _, rows = made(tmp_path, name, FIELDS, 5)
    assert PLAIN[name](path, FIELDS) == {key: value.tobytes() for key, value in rows.items()}


def test_numpy_reads_the_rows_at_the_recorded_offsets(name: str, tmp_path: Path) -> None:
    path, shard, rows = made(tmp_path, name, FIELDS, 5)
    for item in FIELDS:
        offset, length = shard.regions[item.name]
        assert length == 5 * item.row_bytes
        if length:
            plain = np.memmap(path, STORED_AS[item.dtype], "r", offset, (5, *item.shape))
            assert plain.tobytes() == rows[item.name].tobytes()
            assert offset % 16 == 0  # the strictest alignment any CPU asks for


def test_regions_do_not_overlap(name: str, tmp_path: Path) -> None:
    _, shard, _ = made(tmp_path, name, FIELDS, 5)
    regions = sorted((start, start + length) for start, length in shard.regions.values() if length)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(regions))
    assert regions[-1][1] <= shard.bytes


def test_two_shards_of_a_split_hold_their_own_rows(name: str, tmp_path: Path) -> None:
    container, fields = format_of(name), FIELDS[:3]
    halves = [{item.name: rows_of(item, 4, seed) for item in fields} for seed in (1, 2)]
    for number, rows in enumerate(halves):
        path = tmp_path / f"train-0000{number}-of-00002.{container.suffix}"
        shard = write_shard(path, container, fields, rows, first=4 * number)
        mapped = container.map(path, shard, fields)
        assert all(mapped[key][:].tobytes() == value.tobytes() for key, value in rows.items())


def test_a_mapping_cannot_be_written(name: str, tmp_path: Path) -> None:
    path, shard, _ = made(tmp_path, name, FIELDS[:1], 3)
    mapped = format_of(name).map(path, shard, FIELDS[:1])["f_uint8"]
    assert not mapped.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        mapped[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        mapped.flags.writeable = True


def test_a_mapping_outlives_its_file(name: str, tmp_path: Path) -> None:
    path, shard, rows = made(tmp_path, name, FIELDS[:1], 3)
    mapped = format_of(name).map(path, shard, FIELDS[:1])["f_uint8"]
    path.unlink()
    assert mapped[:].tobytes() == rows["f_uint8"].tobytes()


def test_two_folders_give_identical_bytes(name: str, tmp_path: Path) -> None:
    files = []
    for folder in ("a", "b/deeper"):
        (tmp_path / folder).mkdir(parents=True)
        files.append(made(tmp_path / folder, name, FIELDS, 6)[0].read_bytes())
    assert files[0] == files[1]


def test_a_file_is_little_larger_than_its_rows(name: str, tmp_path: Path) -> None:
    # BR-37, BR-41: neither a parent tensor nor a reserved map is stored with the rows.
    fields = (Field("row", "float32", (1000,)),)
    path, _, _ = made(tmp_path, name, fields, 10)
    assert path.stat().st_size <= 40_000 + 64 * 1024 + (1 << 20 if name == "lmdb" else 0)


def test_only_the_shard_is_written(name: str, tmp_path: Path) -> None:
    path, shard, _ = made(tmp_path, name, FIELDS, 3)
    container = format_of(name)
    container.check(path, shard, FIELDS)
    container.map(path, shard, FIELDS)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_read_only_file_in_a_read_only_folder_is_mapped(name: str, tmp_path: Path) -> None:
    path, shard, rows = made(tmp_path, name, FIELDS, 3)
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    before = (path.stat().st_mtime_ns, tmp_path.stat().st_mtime_ns)
    try:
        format_of(name).check(path, shard, FIELDS)
        mapped = format_of(name).map(path, shard, FIELDS)
        assert mapped["label"][:].tobytes() == rows["label"].tobytes()
        assert (path.stat().st_mtime_ns, tmp_path.stat().st_mtime_ns) == before
    finally:
        tmp_path.chmod(0o755)


def spoil(path: Path, how: str) -> None:
    """Damage a file in one of the ways files are damaged."""
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "folder":
        path.unlink()
        path.mkdir()
    else:
        changed = {
            "empty": b"",
            "half": data[: len(data) // 2],
            "one byte short": data[:-1],
            "one byte more": data + b"\0",
            "text": b"<html>not found</html>".ljust(len(data)),
            "zeros": bytes(len(data)),
        }
        path.write_bytes(changed[how])


@pytest.mark.parametrize(
    "how", ["missing", "folder", "empty", "half", "one byte short", "one byte more", "text", "zeros"]
)
def test_a_damaged_file_is_one_error_with_its_name(name: str, how: str, tmp_path: Path) -> None:
    path, shard, _ = made(tmp_path, name, FIELDS, 40)
    spoil(path, how)
    with pytest.raises(ShardError, match=path.name) as caught:
        format_of(name).map(path, shard, FIELDS)
    assert "recompile" in str(caught.value)


@pytest.mark.parametrize("other", FORMATS)
def test_another_containers_file_of_equal_size_is_refused(name: str, other: str, tmp_path: Path) -> None:
    if other == name:
        return
    path, shard, _ = made(tmp_path, name, FIELDS, 3)
    (tmp_path / "other").mkdir()
    foreign, _, _ = made(tmp_path / "other", other, FIELDS, 3)
    path.write_bytes(foreign.read_bytes().ljust(shard.bytes, b"\0")[: shard.bytes])
    with pytest.raises(ShardError, match=path.name):
        format_of(name).map(path, shard, FIELDS)
    with pytest.raises(ShardError, match=path.name):
        format_of(name).check(path, shard, FIELDS)


def test_the_legacy_layout_of_torch_is_refused(tmp_path: Path) -> None:
    # BR-39: neither mapped wrongly nor loaded as a whole.
    path, shard, rows = made(tmp_path, "pt", FIELDS[:1], 3)
    file = io.BytesIO()
    torch.save({"f_uint8": torch.from_numpy(rows["f_uint8"])}, file, _use_new_zipfile_serialization=False)
    path.write_bytes(file.getvalue().ljust(shard.bytes, b"\0")[: shard.bytes])
    with pytest.raises(ShardError, match="recompile"):
        format_of("pt").map(path, shard, FIELDS[:1])


def test_a_pt_shard_is_a_sound_zip_with_nothing_but_tensors(tmp_path: Path) -> None:
    # BR-38: no class of NumPy, no class of ours in the pickle.
    path, shard, _ = made(tmp_path, "pt", FIELDS, 3)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        pickled = archive.read("archive/data.pkl")
    assert b"numpy" not in pickled
    assert b"dscompile" not in pickled
    assert all(offset % 4096 == 0 for offset, length in shard.regions.values() if length)


def test_a_pt_shard_is_what_torch_save_writes(tmp_path: Path) -> None:
    # A road that is not ours: the whole dict at once, then record by record.
    path, _, rows = made(tmp_path, "pt", FIELDS, 3)
    tensors = {}
    for item in FIELDS:
        tensors[item.name] = torch.empty((3, *item.shape), dtype=getattr(torch, item.dtype))
        if item.row_bytes:
            flat = torch.from_numpy(np.frombuffer(rows[item.name].tobytes(), np.uint8).copy())
            tensors[item.name].view(-1).view(torch.uint8).copy_(flat)
    (tmp_path / "theirs").mkdir()
    other = tmp_path / "theirs" / path.name
    with other.open("wb") as file:
        torch.save(tensors, file)
    with zipfile.ZipFile(path) as ours, zipfile.ZipFile(other) as theirs:
        names = [info.filename for info in theirs.infolist()]
        assert [info.filename for info in ours.infolist()] == names
        for record in names:
            if not record.endswith(".data/serialization_id") and not record.endswith("storage_alignment"):
                assert ours.read(record) == theirs.read(record), record


# SHA-256 of one shard by container and version of its library, which may lay it out otherwise (format.md).
GOLDEN = {
    "pt": {"2.14": "6a02f0fa5198a1e782cb7299b3757da3f3b14b44bc8f9f69f19f42b8b8207273"},
    "hdf5": {"3.16": "9608cfa21c3e921c7967216b7111b86759315c4c5aee0b88983c5dc5b5755d7e"},
    "lmdb": {"3.0": "6c62684b49e151db40634f0ae44dc3e69d8b11ba57dba815f7286cc02dc019fa"},
}
LIBRARY = {"pt": "torch", "hdf5": "h5py", "lmdb": "lmdb"}


def test_bytes_stay_as_they_are(name: str, tmp_path: Path) -> None:
    rows = {"x": np.arange(24, dtype="<f4").reshape(2, 3, 4), "label": np.array([7, -1], "<i8")}
    fields = (Field("x", "float32", (3, 4)), Field("label", "int64", (), python="int"))
    container = format_of(name)
    path = tmp_path / f"train-00000-of-00001.{container.suffix}"
    shard = write_shard(path, container, fields, rows)
    data = path.read_bytes()
    start, length = shard.regions["x"]
    assert hashlib.sha256(data[start : start + length]).hexdigest() == (
        "45a99655901702d55ab6284a18aed6a5e16677181d16c7a7517b68c2ae2c0c7a"
    )
    version = ".".join(metadata.version(LIBRARY[name]).split(".")[:2])
    assert shard.sha256 == GOLDEN[name].get(version, shard.sha256)


def test_rows_may_be_written_by_other_processes(name: str, tmp_path: Path) -> None:
    fields = FIELDS[:2]
    container, path = format_of(name), tmp_path / f"s.{format_of(name).suffix}"
    rows = {item.name: rows_of(item, 4) for item in fields}
    regions = container.create(path, fields, 4)
    child = os.fork()
    if child == 0:
        handle = os.open(path, os.O_WRONLY)
        for key, (offset, _) in regions.items():
            os.pwrite(handle, rows[key].tobytes(), offset)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    regions = container.seal(path, fields, regions)
    shard = Shard(path.name, 0, 4, path.stat().st_size, "", dict(regions))
    mapped = container.map(path, shard, fields)
    assert all(mapped[key][:].tobytes() == value.tobytes() for key, value in rows.items())
