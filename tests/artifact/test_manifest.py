"""The manifest: read strictly. Whatever is changed in it is refused by name, or changes nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import dscompile
from dscompile.artifact.manifest import FILE_NAME, Manifest
from dscompile.errors import (
    ArtifactError,
    ArtifactNotFoundError,
    DscompileError,
    ForeignManifestError,
    ManifestError,
    ShardError,
    UnsafePathError,
    VersionError,
)

pytestmark = pytest.mark.usefixtures("no_open_files")
Path_ = tuple[Any, ...]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact with two shards, two splits and every key of a manifest."""
    return dscompile.build(
        "synthetic:train=8,test=4,size=8",
        store=tmp_path_factory.mktemp("store"),
        shard_bytes=3 * (3 * 8 * 8 * 4 + 8),
    ).path


@pytest.fixture
def artifact(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "artifact"))


def load(artifact: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((artifact / FILE_NAME).read_text(encoding="utf-8"))
    return data


def save(artifact: Path, data: Any) -> None:
    (artifact / FILE_NAME).write_text(json.dumps(data), encoding="utf-8")


def test_reading_gives_what_was_written(sound: Path, tmp_path: Path) -> None:
    manifest = Manifest.read(sound)
    manifest.write(tmp_path)
    assert Manifest.read(tmp_path) == manifest
    assert manifest.to_dict() == load(sound)
    assert [len(split.shards) for split in manifest.splits.values()] == [3, 2]


def test_a_version_above_ours_names_both(artifact: Path) -> None:
    save(artifact, {**load(artifact), "format_version": 2})
    with pytest.raises(VersionError, match=r"at most 1, got 2\b"):
        Manifest.read(artifact)


def test_unknown_required_features_are_named(artifact: Path) -> None:
    save(artifact, {**load(artifact), "required_features": ["zstd", "colours"]})
    with pytest.raises(VersionError, match="colours, zstd"):
        Manifest.read(artifact)


def test_unknown_keys_are_ignored(artifact: Path) -> None:
    before, data = Manifest.read(artifact), load(artifact)
    data["later"] = {"anything": [1, None]}
    data["fields"][0]["later"] = 1
    data["splits"]["train"]["shards"][0]["later"] = "x"
    save(artifact, data)
    assert Manifest.read(artifact) == before
    assert dscompile.open(artifact, "train")[0][1] == dscompile.open(artifact, "train")[0][1]


TEXTS = {
    "empty": b"",
    "half": None,
    "not UTF-8": b"\xff\xfe{}",
    "a list": b"[]",
    "null": b"null",
    "a number": b"1",
    "deeply nested": b"[" * 100_000,
    "deep inside": b'{"a":' * 900 + b"1" + b"}" * 900,
    "an empty object": b"{}",
    "a page of HTML": b"<html></html>",
    "a byte-order mark": b"\xef\xbb\xbf{}",
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_manifest_is_one_clear_error(name: str, artifact: Path) -> None:
    file = artifact / FILE_NAME
    content = TEXTS[name]
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2] if content is None else content)
    with pytest.raises(ManifestError, match="not a valid manifest") as caught:
        Manifest.read(artifact)
    assert str(file) in str(caught.value)


def test_a_missing_or_unreadable_manifest(artifact: Path) -> None:
    (artifact / FILE_NAME).unlink()
    for path in (artifact, artifact / "nothing", artifact / "train-00000-of-00003.pt"):
        with pytest.raises(ArtifactNotFoundError, match=str(path)):
            Manifest.read(path)
    (artifact / FILE_NAME).mkdir()
    with pytest.raises(ManifestError, match=FILE_NAME):
        Manifest.read(artifact)


def test_a_key_twice_is_refused_by_name(artifact: Path) -> None:
    file = artifact / FILE_NAME
    file.write_text(file.read_text(encoding="utf-8").replace('"name":', '"sample": "dict", "name":', 1))
    with pytest.raises(ManifestError, match="'sample' twice"):
        Manifest.read(artifact)


def test_a_field_twice_is_refused(artifact: Path) -> None:
    data = load(artifact)
    data["fields"].append(data["fields"][0])
    save(artifact, data)
    with pytest.raises(ManifestError, match="unique fields"):
        Manifest.read(artifact)


UNSAFE = [
    *("/etc/passwd", "../train-00000-of-00003.pt", "a/../../b", "..", ".", "", "a\\b", "a\0b"),
    *("C:\\x", "\\\\host\\x", "//etc/passwd"),
]


@pytest.mark.parametrize("path", UNSAFE)
def test_a_path_that_leaves_the_artifact_is_refused(path: str, artifact: Path) -> None:
    data = load(artifact)
    data["splits"]["train"]["shards"][0]["path"] = path
    save(artifact, data)
    with pytest.raises(UnsafePathError, match=FILE_NAME):
        Manifest.read(artifact)


def test_a_link_out_of_the_artifact_is_refused(artifact: Path, tmp_path: Path) -> None:
    shard = artifact / "train-00000-of-00003.pt"
    shard.rename(tmp_path / "outside.pt")
    shard.symlink_to(tmp_path / "outside.pt")
    with pytest.raises(ShardError, match="train-00000-of-00003"):
        dscompile.open(artifact, "train")


SHARD = ("splits", "train", "shards", 0)
FAULTS: dict[str, tuple[Path_, Any]] = {
    "first row not 0": ((*SHARD, "first"), 1),
    "too many rows": ((*SHARD, "samples"), 5),
    "no rows": ((*SHARD, "samples"), 0),
    "a file too small": ((*SHARD, "bytes"), 100),
    "outside the file": ((*SHARD, "fields", "image", "offset"), 1 << 40),
    "overlapping": ((*SHARD, "fields", "label", "offset"), "image"),
    "too short a region": ((*SHARD, "fields", "image", "bytes"), 8),
    "no region": ((*SHARD, "fields"), {}),
    "one path twice": ((*SHARD, "path"), "train-00001-of-00003.pt"),
    "another sum of samples": (("splits", "train", "samples"), 9),
    "no shards": (("splits", "train", "shards"), []),
    "no splits": (("splits",), {}),
    "no digests": (("splits", "train", "blocks", "image"), []),
    "no fields": (("fields",), []),
    "block_rows 0": (("block_rows",), 0),
    "another shape": (("fields", 0, "shape"), [3, 8, 9]),
    "a negative shape": (("fields", 0, "shape"), [-3, -8, 8]),
    "another dtype": (("fields", 0, "dtype"), "float16"),
    "an unknown dtype": (("fields", 0, "dtype"), "float8"),
    "an unknown kind": (("fields", 0, "kind"), "polygons"),
    "an unknown container": (("container",), "zarr"),
    "an unknown structure": (("sample",), "set"),
    "a slash in a name": (("fields", 0, "name"), "a/b"),
    "a deviation of 0": (("fields", 0, "normalisation", "std"), [0.0, 1.0, 1.0]),
    "a changed mean": (("fields", 0, "normalisation", "mean"), [0.5, 0.5, 0.5]),
    "changed class names": (("fields", 1, "classes", 0), "square"),
    "normalisation not applied": (("fields", 0, "normalisation", "applied"), False),
    "changed statistics": (("splits", "test", "statistics", "label", "count"), 3),
    "another name": (("name",), "cifar10"),
    "a changed file digest": ((*SHARD, "sha256"), "0" * 64),
    "a version of text": (("format_version",), "1"),
    "a version of 0": (("format_version",), 0),
    "features of text": (("required_features",), "none"),
    "no checksum": (("checksum",), None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_changed_value_is_refused(name: str, artifact: Path) -> None:
    path, value = FAULTS[name]
    data = load(artifact)
    if value == "image":
        value = data["splits"]["train"]["shards"][0]["fields"]["image"]["offset"]
    put(data, path, value)
    save(artifact, data)
    with pytest.raises(ManifestError, match=FILE_NAME):
        Manifest.read(artifact)


@pytest.mark.parametrize("path", [("recipe", "steps", 1, "dtype"), ("recipe", "output", "shard_bytes")])
def test_a_recipe_of_another_artifact_is_foreign(path: Path_, artifact: Path) -> None:
    data = load(artifact)
    put(data, path, 7)
    save(artifact, data)
    with pytest.raises(ForeignManifestError, match="recipe_id"):
        Manifest.read(artifact)


def test_digests_of_another_artifact_are_foreign(artifact: Path) -> None:
    data = load(artifact)
    blocks = data["splits"]["train"]["blocks"]
    blocks["image"], blocks["label"] = blocks["label"], blocks["image"]
    save(artifact, data)
    with pytest.raises(ForeignManifestError, match="content_digest"):
        Manifest.read(artifact)


def put(data: Any, path: Path_, value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


def paths(data: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of every value of plain JSON data."""
    if at:
        yield at
    for key, value in (
        data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    ):
        yield from paths(value, (*at, key))


def outcome(artifact: Path) -> Manifest | DscompileError:
    """Return the manifest, or the error of dscompile that reading it gives; any other error passes."""
    try:
        return Manifest.read(artifact)
    except DscompileError as error:
        return error


ODD = (None, -1, True, 10**30, 0.5, "", "\ud800", "x" * 5000, [], {}, [None], {"": None}, [[]], 1e308)


def test_no_value_anywhere_brings_another_error(artifact: Path) -> None:
    """Each value in turn becomes odd: dscompile's own error, or a manifest that reads as before."""
    data, before = load(artifact), Manifest.read(artifact)
    for path in [item for item in paths(data) if item[:2] not in (("splits", "test"), ("recipe", "source"))]:
        for value in ODD:
            changed = json.loads(json.dumps(data))
            put(changed, path, value)
            save(artifact, changed)
            found = outcome(artifact)
            assert found == before or isinstance(found, ArtifactError), (path, value)
            assert found == before or FILE_NAME in str(found), (path, value)


def test_no_missing_key_brings_another_error(artifact: Path) -> None:
    data, before = load(artifact), Manifest.read(artifact)
    optional = set()
    for path in paths(data):
        changed = json.loads(json.dumps(data))
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]
        save(artifact, changed)
        found = outcome(artifact)
        assert found == before or isinstance(found, ManifestError), path
        assert found == before or FILE_NAME in str(found), path
        if found == before:
            optional.add(path)
    assert {path for path in optional if path[0] != "bytes"} == {
        ("fields", 0, "python"),
        *(("splits", name, "skipped") for name in ("train", "test")),
    }


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_json_does_not_know_are_refused(number: str, artifact: Path) -> None:
    file = artifact / FILE_NAME
    text = file.read_text(encoding="utf-8")
    for key in ('"seconds": ', '"value_range": [\n    ', '"count": '):
        start = text.index(key) + len(key)
        end = min(text.index(stop, start) for stop in (",", "\n"))
        file.write_text(text[:start] + number + text[end:], encoding="utf-8")
        with pytest.raises(ManifestError, match=FILE_NAME):
            Manifest.read(artifact)


def test_a_split_larger_than_memory_is_not_listed(artifact: Path) -> None:
    """Numbers that agree with each other, and would take a list of 10^15 blocks to check."""
    data = load(artifact)
    rows, split = 10**15, data["splits"]["train"]
    split["shards"] = split["shards"][:1]
    shard = split["shards"][0]
    split["samples"] = shard["samples"] = rows
    data["block_rows"] = 1
    shard["fields"]["image"] = {"offset": 0, "bytes": rows * 3 * 8 * 8 * 4}
    shard["fields"]["label"] = {"offset": rows * 800, "bytes": rows * 8}
    shard["bytes"] = rows * 1000
    save(artifact, data)
    with pytest.raises(ManifestError, match=f"{rows} block digests"):
        Manifest.read(artifact)


def test_a_moved_artifact_holds_no_path_of_its_birth(sound: Path, artifact: Path) -> None:
    # BR-53
    text = (artifact / FILE_NAME).read_text(encoding="utf-8")
    assert str(sound.parent) not in text
    assert str(Path.home()) not in text
    first = dscompile.open(artifact, "train")[0][0]
    assert torch.equal(first, dscompile.open(sound, "train")[0][0])
