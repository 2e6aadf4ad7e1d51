"""The store: finding, publishing and removing artifacts, and never taking something else for one."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from objects import Items, left_behind

import dscompile
from dscompile.artifact.manifest import Manifest
from dscompile.artifact.store import Store, folder_name
from dscompile.errors import (
    AmbiguousArtifactError,
    ArtifactError,
    ArtifactNotFoundError,
    DscompileError,
    ForeignManifestError,
    ManifestError,
    ShardError,
    StoreError,
)

pytestmark = pytest.mark.usefixtures("no_open_files")


def made(store: Path, value: float = 0.0, name: str = "things", **options: Any) -> dscompile.Artifact:
    return dscompile.build(Items([torch.full((2,), value)] * 3), store=store, name=name, workers=1, **options)


@pytest.fixture
def two(store: Path) -> list[dscompile.Artifact]:
    return sorted((made(store, 1.0), made(store, 2.0)), key=lambda item: item.path.name)


def test_a_name_finds_its_artifact(store: Path) -> None:
    artifact = made(store)
    assert artifact.path == store / "things" / artifact.manifest.recipe_id[:12]
    for reference in (
        "things",
        f"things@{artifact.path.name}",
        f"things@{artifact.manifest.recipe_id}",
        "things@",
    ):
        assert Store(store).find(reference)[0] == artifact.path
        assert Store(store).locate(reference) == artifact.path


def test_a_path_finds_its_artifact(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = made(store)
    empty = Store(tmp_path / "empty")
    assert empty.find(str(artifact.path))[0] == artifact.path
    assert empty.find(artifact.path)[0] == artifact.path
    monkeypatch.chdir(store)
    assert empty.find(f"things/{artifact.path.name}")[0] == artifact.path
    monkeypatch.chdir(artifact.path)
    assert empty.find(".")[0] == artifact.path


def test_different_contents_of_one_name_are_ambiguous(store: Path, two: list[dscompile.Artifact]) -> None:
    for find in (Store(store).find, Store(store).locate):
        with pytest.raises(AmbiguousArtifactError) as caught:
            find("things")
        assert all(f"things@{item.path.name}" in str(caught.value) for item in two)
        assert "NAME@ID" in str(caught.value)
    for item in two:
        prefix = next(
            n for n in range(1, 13) if not two[item is two[0]].path.name.startswith(item.path.name[:n])
        )
        assert Store(store).find(f"things@{item.path.name[:prefix]}")[0] == item.path


def test_equal_contents_of_one_name_are_interchangeable(store: Path) -> None:
    # Two recipes, one content: another shard size.
    artifacts = [made(store), made(store, shard_bytes=8)]
    assert len({item.manifest.recipe_id for item in artifacts}) == 2
    assert Store(store).find("things")[0] in [item.path for item in artifacts]
    with pytest.raises(AmbiguousArtifactError):
        Store(store).locate("things")  # but rm wants one


@pytest.mark.parametrize("reference", ["other", "things@000000000000", "things@zz", "", "@", "x" * 300])
def test_what_is_not_there_is_said_with_what_is(reference: str, store: Path) -> None:
    made(store)
    for find in (Store(store).find, Store(store).locate):
        with pytest.raises(ArtifactNotFoundError, match="things"):
            find(reference)


def test_an_empty_store_says_so(store: Path) -> None:
    assert Store(store).entries() == []
    with pytest.raises(ArtifactNotFoundError, match="empty store"):
        Store(store).find("cifar10")
    assert not store.exists()


def test_a_damaged_artifact_is_listed_with_its_problem(store: Path, two: list[dscompile.Artifact]) -> None:
    (two[0].path / "manifest.json").write_text("{")
    entries = Store(store).entries()
    assert [entry.path for entry in entries] == [item.path for item in two]
    assert isinstance(entries[0].problem, ManifestError)
    assert entries[1].manifest is not None
    assert Store(store).find("things")[0] == two[1].path  # the sound one of the name
    with pytest.raises(ManifestError):
        Store(store).find(f"things@{two[0].path.name}")
    assert Store(store).locate(f"things@{two[0].path.name}") == two[0].path  # rm must reach it


def test_a_manifest_that_is_a_folder_is_a_problem_too(store: Path) -> None:
    folder = store / "things" / "0123456789ab"
    (folder / "manifest.json").mkdir(parents=True)
    assert isinstance(Store(store).entries()[0].problem, ArtifactError)


def test_an_artifact_in_another_ones_folder_is_foreign(store: Path, two: list[dscompile.Artifact]) -> None:
    shutil.rmtree(two[1].path)
    shutil.copytree(two[0].path, two[1].path)
    with pytest.raises(ForeignManifestError, match=two[1].path.name):
        Store(store).find(f"things@{two[1].path.name}")
    again = 1.0 if torch.equal(two[0].open()[0], torch.full((2,), 2.0)) else 2.0
    with pytest.raises(ForeignManifestError):
        made(store, again)  # a hit must not hand out another artifact's rows
    assert torch.equal(made(store, again, force=True).open()[0], torch.full((2,), again))


def test_removing_leaves_the_others(store: Path, two: list[dscompile.Artifact]) -> None:
    reader = two[0].open()
    reader[0]
    Store(store).remove(two[0].path)
    assert [entry.path for entry in Store(store).entries()] == [two[1].path]
    assert reader[0].shape == (2,)  # who has it open keeps it
    Store(store).remove(two[1].path)
    assert left_behind(store) == []


def test_a_folder_that_is_no_artifact_is_not_located(store: Path, tmp_path: Path) -> None:
    """`manifest.json` is a common name: what `rm` is given must be ours."""
    for text in ('{"name": "My app", "manifest_version": 3, "version": "1.0"}', "{}", "not json"):
        (tmp_path / "app").mkdir(exist_ok=True)
        (tmp_path / "app/manifest.json").write_text(text)
        with pytest.raises(ManifestError, match="app"):
            Store(store).locate(tmp_path / "app")
    with pytest.raises(ArtifactNotFoundError):
        Store(store).locate(tmp_path)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="file"):
        Store.at(tmp_path / "file")
    with pytest.raises(StoreError, match="file"):
        made(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "x"


def test_where_the_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSCOMPILE_STORE", str(tmp_path / "from-environment"))
    assert Store.at().root == tmp_path / "from-environment"
    assert Store.at(tmp_path / "given").root == tmp_path / "given"
    monkeypatch.setenv("DSCOMPILE_STORE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Store.at().root.is_relative_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert Store.at("here").root == tmp_path / "here"
    assert Store.at("~/there").root == tmp_path / "home/there"


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("emnist:balanced", "emnist-balanced"),
        ("../../etc", "etc"),
        ("..", "dataset"),
        ("", "dataset"),
        (".hidden", "hidden"),
        ("a b/c", "a-b-c"),
        ("größe", "gr-e"),
    ],
)
def test_a_name_is_one_folder(name: str, folder: str) -> None:
    assert folder_name(name) == folder


def test_a_name_longer_than_file_names_are(store: Path) -> None:
    artifact = made(store, name="x" * 5000)
    assert Store(store).find("x" * 5000)[0] == artifact.path


def test_permissions_follow_the_umask(store: Path) -> None:
    before = os.umask(0o027)
    try:
        artifact = made(store)
    finally:
        os.umask(before)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in [artifact.path, *artifact.path.iterdir()]
    }
    assert modes.pop(artifact.path.name) == 0o750
    assert set(modes.values()) == {0o640}


def test_an_artifact_holds_its_manifest_and_shards_only(store: Path) -> None:
    artifact = made(store, shard_bytes=8)
    names = ["manifest.json", *(f"train-0000{n}-of-00003.pt" for n in range(3))]
    assert left_behind(store) == ["things", f"things/{artifact.path.name}"] + [
        f"things/{artifact.path.name}/{name}" for name in names
    ]


def test_a_failed_build_removes_its_folders(store: Path) -> None:
    target = Store(store).target("things", "0" * 64)

    def build() -> None:
        with Store(store).staging(target) as folder:
            (folder / "half").write_text("x")
            assert folder.parent == target.parent
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build()
    assert not store.exists()


def test_publishing_keeps_the_first(store: Path) -> None:
    target = Store(store).target("things", "0" * 64)
    for number, published in enumerate((True, False)):
        with Store(store).staging(target) as folder:
            (folder / "manifest.json").write_text(str(number))
            assert Store(store).publish(folder, target) is published
    assert (target / "manifest.json").read_text() == "0"
    with Store(store).staging(target) as folder:
        (folder / "manifest.json").write_text("2")
        assert Store(store).publish(folder, target, replace=True)
    assert (target / "manifest.json").read_text() == "2"
    assert left_behind(store) == ["things", "things/000000000000", "things/000000000000/manifest.json"]


@pytest.mark.parametrize("torn", ["manifest.json", "train-00000-of-00001.pt", "both"])
def test_a_torn_copy_gives_way_or_is_an_error(torn: str, store: Path) -> None:
    artifact = made(store)
    for file in list(artifact.path.iterdir()):
        if torn in (file.name, "both"):
            file.unlink()
    if torn == "train-00000-of-00001.pt":
        with pytest.raises(ShardError, match="--force"):
            made(store)
        made(store, force=True)
    else:
        assert made(store).built  # without a manifest it is no artifact
    assert torch.equal(made(store).open()[0], torch.zeros(2))
    assert not [name for name in left_behind(store) if ".staging" in name]


def racer(store: Path, barrier: Any, results: Any) -> None:
    barrier.wait()
    artifact = made(store)
    results.put((str(artifact.path), artifact.manifest.content_digest))


def test_builds_at_the_same_time_end_with_one_artifact(store: Path) -> None:
    # BR-50
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(5), context.Queue()
    processes = [context.Process(target=racer, args=(store, barrier, results)) for _ in range(4)]
    for process in processes:
        process.start()
    barrier.wait()
    seen = set()
    while any(process.is_alive() for process in processes):
        for entry in Store(store).entries():
            assert entry.problem is None
            seen.add(torch.equal(dscompile.open(entry.path)[0], torch.zeros(2)))
    found = {results.get(timeout=10) for _ in processes}
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(found) == 1
    assert seen <= {True}
    assert len(left_behind(store)) == 4


def test_force_keeps_equal_bytes_and_replaces_others(store: Path) -> None:
    artifact = made(store)
    inode = artifact.path.stat().st_ino
    assert made(store, force=True).built
    assert artifact.path.stat().st_ino == inode
    shard = next(artifact.path.glob("*.pt"))
    reader = artifact.open()
    assert torch.equal(reader[0], torch.zeros(2))
    data = shard.read_bytes()
    shard.unlink()
    shard.write_bytes(data[:-1])
    assert made(store, force=True).built
    assert artifact.path.stat().st_ino != inode
    assert shard.read_bytes() == data
    assert torch.equal(reader[1], torch.zeros(2))  # a reader of the old one keeps it


def test_every_error_is_one_message_with_its_parts() -> None:
    error = StoreError("place", "this", "that", "Cure.")
    assert str(error) == "place: expected this, got that. Cure."
    assert isinstance(error, (DscompileError, OSError))
    import pickle

    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_the_manifest_is_read_once_published(store: Path) -> None:
    artifact = made(store)
    assert Manifest.read(artifact.path) == artifact.manifest
