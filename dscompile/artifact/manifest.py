"""`manifest.json`: what an artifact holds, read strictly. `docs/format.md` is the normative text."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dscompile.artifact.fields import Field
from dscompile.artifact.hashing import content_digest, digest_of
from dscompile.artifact.parsing import REBUILD, count, invalid, text
from dscompile.artifact.splits import Split
from dscompile.errors import (
    ArtifactNotFoundError,
    DscompileError,
    ForeignManifestError,
    ManifestError,
    VersionError,
)

FILE_NAME = "manifest.json"
FORMAT_VERSION = 1
# The rows of compressed shards cannot be mapped: a reader must know how to ask the container for them.
COMPRESSED = "compressed-shards"
KNOWN_FEATURES = frozenset({COMPRESSED})
CONTAINERS = ("pt", "hdf5", "lmdb")
STRUCTURES = ("tuple", "dict", "single")


@dataclass(frozen=True)
class Manifest:
    """Everything about an artifact but its bytes. See `docs/format.md` for each key."""

    name: str
    container: str
    recipe: Mapping[str, Any]
    sample: str
    fields: tuple[Field, ...]
    block_rows: int
    splits: Mapping[str, Split]
    sources: tuple[Mapping[str, Any], ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    compression: str | None = None
    parent: Mapping[str, Any] | None = None
    writer: Mapping[str, Any] = field(default_factory=dict)
    build: Mapping[str, Any] = field(default_factory=dict)

    @property
    def recipe_id(self) -> str:
        """SHA-256 of the canonical recipe."""
        return digest_of(self.recipe)

    @property
    def content_digest(self) -> str:
        """SHA-256 over the field bytes of all splits, the same in every container."""
        return content_digest(
            self.fields, {name: (split.samples, split.blocks) for name, split in self.splits.items()}
        )

    @property
    def bytes_on_disk(self) -> int:
        """Bytes of all shards."""
        return sum(shard.bytes for split in self.splits.values() for shard in split.shards)

    def field(self, name: str) -> Field:
        """Return the field of that name."""
        return next(item for item in self.fields if item.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that `write` stores, `checksum` included."""
        samples = sum(split.samples for split in self.splits.values())
        data: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "required_features": [] if self.compression is None else [COMPRESSED],
            "name": self.name,
            "container": self.container,
            "recipe_id": self.recipe_id,
            "content_digest": self.content_digest,
            "recipe": dict(self.recipe),
            "sample": self.sample,
            "fields": [item.to_dict() for item in self.fields],
            "block_rows": self.block_rows,
            "splits": {name: split.to_dict() for name, split in self.splits.items()},
            "sources": [dict(item) for item in self.sources],
            "notes": dict(self.notes),
            "bytes": {"disk": self.bytes_on_disk, "resident": _resident(self.fields, samples)},
            "writer": dict(self.writer),
            "build": dict(self.build),
        }
        optional = {"compression": self.compression, "parent": self.parent and dict(self.parent)}
        data.update({key: value for key, value in optional.items() if value is not None})
        return {**data, "checksum": digest_of(data)}

    def write(self, path: Path) -> None:
        """Write `manifest.json` into the folder `path`; the caller makes it durable."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        (path / FILE_NAME).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read and check the manifest in the folder `path`; opens no shard.

        Raises:
            ArtifactNotFoundError: There is no such folder, or no manifest in it.
            VersionError: A newer format version, or a required feature this version does not know.
            UnsafePathError: A shard path is absolute or leaves the folder.
            ForeignManifestError: Recipe or digests do not belong together.
            ManifestError: Anything else that makes it no valid manifest.
        """
        file = path / FILE_NAME
        try:
            if not stat.S_ISREG(os.stat(file).st_mode):  # a pipe would be waited for without end
                raise invalid(file, "a regular file", "a folder, a pipe or a device")
            text = file.read_text(encoding="utf-8")
        except ManifestError:
            raise
        except UnicodeDecodeError as error:
            raise invalid(file, "UTF-8 text", str(error)) from error
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: NUL in the path
            raise ArtifactNotFoundError(
                str(path),
                f"an artifact, a folder with {FILE_NAME}",
                "a folder without it" if os.path.exists(path) else "no such folder",
                "Run 'dscompile list' to see what is there, or build it.",
            ) from error
        except OSError as error:
            raise invalid(file, "a file that can be read", error.strerror or str(error)) from error
        data = _parse(file, text)
        _check_version(file, data)
        try:
            manifest = cls._from_dict(data)
            manifest._check(file, data)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            if isinstance(error, ManifestError):
                raise
            got = str(error) if isinstance(error, DscompileError) else f"{type(error).__name__}: {error}"
            raise invalid(file, "every key that docs/format.md requires, of its type", got) from error
        return manifest

    @classmethod
    def _from_dict(cls, data: Mapping[str, Any]) -> Manifest:
        return cls(
            name=text(data["name"]),
            container=text(data["container"]),
            recipe=dict(data["recipe"]),
            sample=text(data["sample"]),
            fields=tuple(Field.from_dict(item) for item in data["fields"]),
            block_rows=count(data["block_rows"]),
            splits={name: Split.from_dict(item) for name, item in data["splits"].items()},
            sources=tuple(dict(item) for item in data["sources"]),
            notes=dict(data.get("notes", {})),
            compression=text(data["compression"]) if "compression" in data else None,
            parent=dict(data["parent"]) if "parent" in data else None,
            writer=dict(data["writer"]),
            build=dict(data["build"]),
        )

    def _check(self, file: Path, data: Mapping[str, Any]) -> None:
        for label, value, known in (
            ("container", self.container, CONTAINERS),
            ("sample", self.sample, STRUCTURES),
        ):
            if value not in known:
                raise invalid(file, f"{label} to be one of {', '.join(known)}", repr(value))
        names = [item.name for item in self.fields]
        if not names or len(set(names)) != len(names) or self.block_rows < 1 or not self.splits:
            raise invalid(file, "unique fields, at least one split, block_rows >= 1", f"fields {names}")
        paths = [shard.path for split in self.splits.values() for shard in split.shards]
        if len(set(paths)) != len(paths):
            raise invalid(file, "every shard once", "one path twice")
        for item in self.fields:
            item.check()
        for name, split in self.splits.items():
            split.check(
                f"{file}, split {name!r}", self.fields, self.block_rows, mapped=self.compression is None
            )
        self._check_seals(file, data)

    def _check_seals(self, file: Path, data: Mapping[str, Any]) -> None:
        """Refuse digests that do not belong to what was read, and values that were not read as they stand."""
        for key, value in (("recipe_id", self.recipe_id), ("content_digest", self.content_digest)):
            if data.get(key) != value:
                raise ForeignManifestError(
                    f"{file}, {key}", f"{value}, computed from the manifest", repr(data.get(key)), REBUILD
                )
        written = self.to_dict()
        if data.get("checksum") != written["checksum"]:
            raise invalid(file, "the recorded checksum to match its keys", "a changed value")
        # Sizes follow from the other keys and are not read.
        lost = _lost({key: value for key, value in data.items() if key != "bytes"}, written)
        if lost is not None:
            raise invalid(f"{file}, {lost}", "a value of the type that docs/format.md says", "another")


def _resident(fields: tuple[Field, ...], samples: int) -> dict[str, int]:
    """Bytes in memory if every picture were held in that dtype, other fields as stored."""
    return {
        dtype: samples
        * sum((replace(item, dtype=dtype) if item.is_picture else item).row_bytes for item in fields)
        for dtype in ("uint8", "float16", "bfloat16", "float32")
    }


def _lost(read: Any, written: Any) -> str | None:
    """Return the key of a value that would not be written as it was read, None if all would be.

    Keys that this version does not know are not compared.
    """
    if isinstance(read, dict) and isinstance(written, dict):
        pairs = [(str(key), read[key], written[key]) for key in read if key in written]
    elif isinstance(read, list) and isinstance(written, list) and len(read) == len(written):
        pairs = [(str(place), *pair) for place, pair in enumerate(zip(read, written, strict=True))]
    else:
        return None if read == written else ""
    for key, *pair in pairs:
        if (inner := _lost(*pair)) is not None:
            return f"{key}.{inner}".rstrip(".")
    return None


def _parse(file: Path, text: str) -> Mapping[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(pairs)
        if len(data) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise invalid(file, "every key once", f"{twice!r} twice")
        return data

    def constant(name: str) -> None:
        raise invalid(file, "finite numbers", name)

    try:
        data = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        if isinstance(error, ManifestError):
            raise
        raise invalid(file, "a JSON object", f"{error}") from error
    if not isinstance(data, dict):
        raise invalid(file, "a JSON object", type(data).__name__)
    return data


def _check_version(file: Path, data: Mapping[str, Any]) -> None:
    version = data.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise invalid(file, "format_version to be a whole number >= 1", repr(version))
    if version > FORMAT_VERSION:
        raise VersionError(
            f"{file}, format_version",
            f"at most {FORMAT_VERSION}",
            str(version),
            "Update dscompile to read it.",
        )
    features = data.get("required_features")
    if not isinstance(features, list) or not all(isinstance(name, str) for name in features):
        raise invalid(file, "required_features to be a list of names", repr(features))
    if unknown := sorted(set(features) - KNOWN_FEATURES):
        raise VersionError(
            f"{file}, required_features",
            "features this version knows",
            ", ".join(unknown),
            "Update dscompile.",
        )
