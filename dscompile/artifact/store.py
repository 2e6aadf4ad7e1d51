"""The store: where artifacts live, how one is named, found and published."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from dscompile.artifact.manifest import CONTAINERS, FILE_NAME, Manifest
from dscompile.artifact.references import as_path, describe, label, usable_name
from dscompile.errors import (
    AmbiguousArtifactError,
    ArtifactError,
    ArtifactNotFoundError,
    DscompileError,
    ForeignManifestError,
    ManifestError,
    OptionError,
    StoreError,
)

ID_DIGITS = 12
STAGING = ".staging-"


class Entry(NamedTuple):
    """One artifact of a store: its folder and its manifest, or the reason why it has none."""

    path: Path
    manifest: Manifest | None
    problem: DscompileError | None = None


class Store(NamedTuple):
    """A directory of artifacts, `STORE/name/first 12 hex digits of the recipe id/`."""

    root: Path

    @classmethod
    def at(cls, root: str | os.PathLike[str] | None = None) -> Store:
        """Return the store at `root`, else at `DSCOMPILE_STORE`, else in the user's cache folder.

        Raises:
            StoreError: The path is a file.
        """
        chosen = root or os.environ.get("DSCOMPILE_STORE") or None
        if chosen is None:
            import platformdirs

            chosen = platformdirs.user_cache_path("dscompile")
        path = Path(os.path.abspath(os.path.expanduser(chosen)))
        if os.path.exists(path) and not os.path.isdir(path):
            raise StoreError(str(path), "a directory for artifacts", "a file", "Choose another --store.")
        return cls(path)

    @property
    def downloads(self) -> Path:
        """The folder that sources are downloaded into unless a root is given."""
        return self.root / "downloads"

    def target(self, name: str, recipe_id: str) -> Path:
        """Return the folder of the artifact with that name and recipe id.

        Raises:
            OptionError: The name is taken by the folder of downloads, or no folder can have it.
        """
        if not usable_name(name):
            expected = "a name with at least one ASCII letter or digit"
            raise OptionError("option name", expected, repr(name), "Choose another --name.")
        if folder_name(name) == self.downloads.name:
            raise OptionError("option name", "a name that is not taken", repr(name), "Choose another --name.")
        return self.root / folder_name(name) / recipe_id[:ID_DIGITS]

    def entries(self, name: str = "*") -> list[Entry]:
        """Return every artifact of the store, sorted by name and id; staging folders are not artifacts.

        Args:
            name: Only those in the folder of that name.

        Raises:
            StoreError: The store cannot be read.
        """
        found: list[Entry] = []
        try:
            os.scandir(self.root).close()
            files = sorted(self.root.glob(f"{name}/*/{FILE_NAME}"))
        except FileNotFoundError:
            return found
        except (OSError, ValueError) as error:  # ValueError: NUL in the path
            raise _unusable(self.root, "a directory that can be read", error) from error
        for file in files:
            folder = file.parent
            if folder.name.startswith(".") or folder.parent.name.startswith("."):
                continue
            try:
                found.append(Entry(folder, self._read(folder)))
            except (ManifestError, OSError) as error:
                problem = error if isinstance(error, DscompileError) else _unreadable(folder, error)
                found.append(Entry(folder, None, problem))
        return found

    def find(self, reference: str | os.PathLike[str]) -> tuple[Path, Manifest]:
        """Return folder and manifest of an artifact given by path, `NAME` or `NAME@ID-prefix`.

        Artifacts of one name and equal content are interchangeable: pt is taken before hdf5 before lmdb.

        Raises:
            ArtifactNotFoundError: Nothing matches.
            AmbiguousArtifactError: Several match and differ in content; all are listed.
            ManifestError: The artifact's manifest is not valid.
        """
        text = os.fspath(reference)
        if (path := as_path(reference)) is not None:
            return path, Manifest.read(path)
        matches = self._named(text)
        sound = [(entry.path, entry.manifest) for entry in matches if entry.manifest is not None]
        if not sound:
            raise matches[0].problem or self._unknown(text)
        if len({(manifest.content_digest, manifest.fields) for _, manifest in sound}) > 1:
            raise AmbiguousArtifactError(
                f"artifact {text!r} in {self.root}",
                "one artifact, or several of equal content",
                ", ".join(f"{label(path)} ({describe(manifest)})" for path, manifest in sound),
                "Name one as NAME@ID.",
            )
        return min(sound, key=lambda item: (CONTAINERS.index(item[1].container), item[0].name))

    def locate(self, reference: str | os.PathLike[str]) -> Path:
        """Return the folder of exactly one artifact, which may be damaged: what `rm` needs.

        Raises:
            ArtifactNotFoundError: Nothing matches.
            AmbiguousArtifactError: Several match; all are listed.
            ManifestError: A folder outside the store has a manifest that is not valid.
        """
        text = os.fspath(reference)
        if (path := as_path(reference)) is not None:
            if not os.path.exists(path / FILE_NAME):
                raise ArtifactNotFoundError(
                    str(path), f"an artifact, a folder with {FILE_NAME}", "none", "Run 'dscompile list'."
                )
            if path.parent.parent != self.root:
                Manifest.read(path)  # anything may have a file of that name: not ours to remove
            return path
        matches = self._named(text)
        if len(matches) > 1:
            raise AmbiguousArtifactError(
                f"artifact {text!r} in {self.root}",
                "exactly one artifact",
                ", ".join(label(entry.path) for entry in matches),
                "Name one as NAME@ID.",
            )
        return matches[0].path

    @contextmanager
    def staging(self, target: Path) -> Iterator[Path]:
        """Lend a new folder beside `target` to build in; whatever is left of it is removed afterwards.

        Raises:
            StoreError: The store cannot be written.
        """
        folder = target.parent / f"{STAGING}{target.name}-{os.getpid()}-{secrets.token_hex(4)}"
        made = [path for path in (target.parent, self.root) if not path.exists()]
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise StoreError(
                str(self.root),
                "a directory that can be written",
                error.strerror or str(error),
                "Choose another --store, or correct its permissions.",
            ) from error
        try:
            yield folder
        finally:
            if folder.exists():
                shutil.rmtree(folder)
            for path in made:
                with suppress(OSError):  # not empty: another build, or ours was published
                    path.rmdir()

    def publish(self, staging: Path, target: Path, *, replace: bool = False) -> bool:
        """Move a finished staging folder to its final name in one rename.

        Everything in it is made durable first. Readers that have a replaced artifact open keep it.

        Returns:
            True if `staging` is now the artifact; False if one is there already and `replace` is off
            (another job was faster): it is kept, and `staging` is left to its owner. A folder without a
            manifest is no artifact and gives way.
        """
        for path in [*staging.rglob("*"), staging]:
            fsync(path)
        if target.exists() and (replace or not (target / FILE_NAME).exists()):
            old = target.parent / f"{STAGING}{target.name}-old-{secrets.token_hex(4)}"
            target.rename(old)
            staging.rename(target)
            shutil.rmtree(old)
        else:
            try:
                staging.rename(target)
            except OSError as error:
                if not target.exists():
                    raise StoreError(
                        str(target), "a folder that can be made", error.strerror or str(error), "Try again."
                    ) from error
                return False
        fsync(target.parent)
        return True

    def remove(self, path: Path) -> None:
        """Remove an artifact; it is renamed first, so that nobody finds it half removed.

        Raises:
            StoreError: It cannot be removed, for lack of permission or as the store is read-only.
        """
        doomed = path.parent / f"{STAGING}{path.name}-removed-{secrets.token_hex(4)}"
        try:
            path.rename(doomed)
            shutil.rmtree(doomed)
        except OSError as error:
            place = doomed if os.path.exists(doomed) else path
            raise _unusable(place, "an artifact that can be removed", error) from error
        with suppress(OSError):  # other artifacts of that name
            path.parent.rmdir()

    def _read(self, folder: Path) -> Manifest:
        manifest = Manifest.read(folder)
        if not manifest.recipe_id.startswith(folder.name):
            raise ForeignManifestError(
                f"{folder / FILE_NAME}, recipe_id",
                f"an id that starts with the folder's name {folder.name}",
                manifest.recipe_id[:ID_DIGITS],
                "Move the artifact to its own folder, or remove it.",
            )
        return manifest

    def _named(self, text: str) -> list[Entry]:
        """Return the artifacts that `NAME` or `NAME@ID-prefix` fits, at least one."""
        name, _, prefix = text.partition("@")
        folder, digits = usable_name(name), prefix[:ID_DIGITS]
        known = self.entries(folder) if folder else []
        matches = [entry for entry in known if entry.path.name.startswith(digits)]
        if not matches:
            raise self._unknown(text)
        return matches

    def _unknown(self, text: str) -> ArtifactNotFoundError:
        names = sorted({entry.path.parent.name for entry in self.entries()})
        listed = f"only {', '.join(names)}" if names else "an empty store"
        if not usable_name(text.partition("@")[0]):
            place = f"artifact {text!r} in {self.root}"
            return ArtifactNotFoundError(
                place, "a path, NAME or NAME@ID", f"no name, and {listed}", "Run 'dscompile list'."
            )
        return ArtifactNotFoundError(
            f"store {self.root}",
            f"an artifact {text!r}",
            listed,
            f"Build it with 'dscompile build {text.partition('@')[0]}', or choose another --store.",
        )


def folder_name(name: str) -> str:
    """Return the name as one folder: `emnist:balanced` -> `emnist-balanced`; long ones are cut."""
    return usable_name(name) or "dataset"


def fsync(path: Path) -> None:
    """Make a file or a directory entry durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unusable(place: Path, expected: str, error: Exception) -> StoreError:
    got = getattr(error, "strerror", None) or str(error)
    cure = "Correct the permissions of the store, or choose another --store."
    return StoreError(str(place), expected, got, cure)


def _unreadable(folder: Path, error: OSError) -> ArtifactError:
    cure = "Build it again with --force, or remove it with 'dscompile rm'."
    return ArtifactError(str(folder), "a readable manifest", error.strerror or str(error), cure)
