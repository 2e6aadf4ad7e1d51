"""What is no reference, no name and no store; and what the commands print of it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from objects import Items

import dscompile
from dscompile.artifact.manifest import Manifest
from dscompile.artifact.store import Store
from dscompile.cli import show
from dscompile.errors import ArtifactNotFoundError, OptionError, StoreError

pytestmark = pytest.mark.usefixtures("no_open_files")


def made(store: Path, name: str = "dataset0") -> dscompile.Artifact:
    return dscompile.build(Items([1, 2, 3]), store=store, name=name, workers=1)


@pytest.mark.parametrize("reference", ["", "...", "@", "@abc", "訓練", "-.-"])
def test_a_reference_without_a_name_is_refused(
    reference: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = made(store, "dataset")
    monkeypatch.chdir(artifact.path)  # "" is not the folder that one happens to be in
    for find in (Store(store).find, Store(store).locate):
        with pytest.raises(ArtifactNotFoundError) as caught:
            find(reference)
        assert str(caught.value) == (
            f"artifact {reference!r} in {store}: expected a path, NAME or NAME@ID, "
            "got no name, and only dataset. Run 'dscompile list'."
        )


@pytest.mark.parametrize("name", ["", "..", "訓練", "@"])
def test_a_name_without_a_usable_character_is_refused(name: str, store: Path) -> None:
    with pytest.raises(OptionError) as caught:
        Store(store).target(name, "0" * 64)
    assert str(caught.value) == (
        f"option name: expected a name with at least one ASCII letter or digit, got {name!r}. "
        "Choose another --name."
    )


def test_an_empty_store_option_is_unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSCOMPILE_STORE", str(tmp_path / "set"))
    assert Store.at("").root == tmp_path / "set"


@pytest.mark.parametrize("path", ["/nowhere/a\0b", "a\0/b"])
def test_a_path_with_nul_is_not_found(path: str, store: Path) -> None:
    for find in (Store(store).find, Store(store).locate):
        with pytest.raises(ArtifactNotFoundError):
            find(path)
    with pytest.raises(ArtifactNotFoundError, match="no such folder"):
        Manifest.read(Path(path))


def test_a_store_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="File name too long"):
        Store.at(tmp_path / ("x" * 300)).entries()
    with pytest.raises(StoreError, match="a directory that can be read"):
        Store(tmp_path / "a\0b").entries()

    def denied(path: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(StoreError) as caught:
        Store(tmp_path).entries()
    assert str(caught.value) == (
        f"{tmp_path}: expected a directory that can be read, got Permission denied. "
        "Correct the permissions of the store, or choose another --store."
    )


@pytest.mark.parametrize("step", ["rename", "rmtree"])
def test_what_cannot_be_removed_is_an_error(step: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = made(store)

    def denied(*words: Any) -> Any:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path if step == "rename" else shutil, step, denied)
    with pytest.raises(StoreError, match="an artifact that can be removed, got Read-only file system"):
        Store(store).remove(artifact.path)
    monkeypatch.undo()


def test_brackets_and_escapes_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "name": "[red]n[/red]",
        "id": "[/]",
        "format": "[bold]",
        "splits": {"[x]": 3},
        "bytes": 1 << 90,
        "created": "\x1b[31mtoday",
    }
    show.entries([row], Path("/a/[/nothing]/b"))
    printed = capsys.readouterr().out
    for text in ("/a/[/nothing]/b", "[red]n", "[/]", "[bold]", "[x] 3"):
        assert text in printed
    assert "\x1b[31m" not in printed


def test_statistics_of_any_type_are_printed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = made(store).manifest
    split = manifest.splits["train"]
    odd = {"min": "[/x]", "max": [None, {"a": 1}], "mean": 10**400, "std": 1.5}
    splits = {"train": split._replace(statistics={"[/item]": odd})}
    show.manifest(Path("/x"), Manifest(**{**vars(manifest), "splits": splits}))
    printed = capsys.readouterr().out
    assert "[/item]" in printed
    assert "1.5" in printed


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1536, "1.5 KiB"),
        (1 << 63, "8388608.0 TiB"),
        (1 << 80, "over 2^80 B"),
        (10**400, "over 2^80 B"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert show.size(count) == text
