"""A folder of broken artifacts: each fault takes a sound artifact and does one kind of damage to it.

`python tests/formats/broken.py FOLDER` makes them all, to be tried with other tools.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dscompile
from dscompile.errors import (
    ForeignManifestError,
    ManifestError,
    ShardError,
    UnsafePathError,
    VersionError,
)

CONTAINERS = ("pt", "hdf5", "lmdb")


class Fault(NamedTuple):
    """One kind of damage.

    Attributes:
        damage: Does it to the artifact in a folder.
        error: What opening the artifact raises; None if only `verify` can see it.
        names: A text that the message must hold.
    """

    damage: Callable[[Path], None]
    error: type[Exception] | None
    names: str


class Pictures:
    """Twelve pictures with labels, the same each time; rows of 48 bytes and of 8 bytes."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[np.ndarray[Any, Any], int]:
        return np.arange(48, dtype=np.uint8).reshape(3, 4, 4) + np.uint8(index), index % 3


def sound(folder: Path, container: str) -> Path:
    """Build a sound artifact of three shards under `folder` and return its path."""
    artifact = dscompile.build(Pictures(), store=folder, name="pictures", format=container, shard_bytes=230)
    return artifact.path


def edited(change: Callable[[dict[str, Any]], None], *, resealed: bool = True) -> Callable[[Path], None]:
    """Return a damage that edits the manifest; `resealed` gives it a checksum that matches."""

    def damage(path: Path) -> None:
        file = path / "manifest.json"
        data = json.loads(file.read_text())
        change(data)
        if resealed:
            data.pop("checksum", None)
            text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            data["checksum"] = hashlib.sha256(text.encode()).hexdigest()
        file.write_text(json.dumps(data))

    return damage


def shard(path: Path) -> Path:
    """Return the first shard of an artifact."""
    return sorted(file for file in path.iterdir() if file.name != "manifest.json")[0]


def first(data: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest's entry of the first shard."""
    found: dict[str, Any] = data["splits"]["train"]["shards"][0]
    return found


def cut(size: Callable[[int], int]) -> Callable[[Path], None]:
    """Return a damage that cuts the first shard to `size(its size)` bytes."""
    return lambda path: os.truncate(shard(path), size(shard(path).stat().st_size))


def flipped(offset: Callable[[Path], int]) -> Callable[[Path], None]:
    """Return a damage that flips one bit of the byte at `offset` of the first shard."""

    def damage(path: Path) -> None:
        data = bytearray(shard(path).read_bytes())
        data[offset(path)] ^= 0x10
        shard(path).write_bytes(data)

    return damage


def region(path: Path, field: str = "image") -> int:
    """Return where the first row of a field begins in the first shard."""
    data = json.loads((path / "manifest.json").read_text())
    return int(first(data)["fields"][field]["offset"])


def linked(path: Path) -> None:
    """Move the first shard out of the artifact and put a link in its place."""
    outside = path.parent.parent / "outside.bin"
    shutil.move(shard(path), outside)
    (path / "train-00000-of-00003").with_suffix(suffix(path)).symlink_to(outside)


def suffix(path: Path) -> str:
    """Return the suffix of the artifact's shards."""
    return next(file.suffix for file in path.iterdir() if file.name != "manifest.json")


def in_place_of_file(path: Path) -> None:
    """Put a folder in the place of the first shard."""
    file = shard(path)
    file.unlink()
    file.mkdir()


def other_kind(path: Path) -> None:
    """Overwrite the first bytes of the first shard with those of a PNG picture."""
    with shard(path).open("r+b") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + bytes(16))


def foreign(path: Path) -> None:
    """Put the manifest of another artifact, with a recipe of its own, in place."""
    edited(lambda data: data["recipe"]["output"].update(shard_bytes=1))(path)


def twice(path: Path) -> None:
    """Say one key of the manifest twice."""
    file = path / "manifest.json"
    file.write_text(file.read_text().replace('"name":', '"name": "other", "name":', 1))


def resealed(path: Path, change: Callable[[dict[str, Any]], None] = lambda data: None) -> None:
    """Edit a manifest, then make all its seals fit: file digests and sizes, content digest, checksum."""
    file = path / "manifest.json"
    data = json.loads(file.read_text())
    change(data)
    for split in data["splits"].values():
        for item in split["shards"]:
            if (path / item["path"]).is_file():
                content = (path / item["path"]).read_bytes()
                item.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    fields = [[field[key] for key in ("name", "kind", "dtype", "shape")] for field in data["fields"]]
    splits = {
        name: {"samples": split["samples"], "blocks": split["blocks"]}
        for name, split in data["splits"].items()
    }
    data["recipe_id"] = digest(data["recipe"])
    data["content_digest"] = digest({"fields": fields, "splits": splits})
    data.pop("checksum", None)
    data["checksum"] = digest(data)
    file.write_text(json.dumps(data))


def digest(data: Any) -> str:
    """Return the digest of plain data as docs/format.md says it."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def rows_of_others(path: Path) -> None:
    """Change a row of the first shard and record the new file's SHA-256, but not that of its rows."""
    flipped(region)(path)
    resealed(path)


def swapped_regions(path: Path) -> None:
    """Record for the picture a region that begins one aligned step later, sealed."""
    resealed(path, lambda data: first(data)["fields"]["image"].update(offset=region(path) + 8))


def pipe(name: Callable[[Path], Path]) -> Callable[[Path], None]:
    """Return a damage that puts a named pipe in the place of a file."""

    def damage(path: Path) -> None:
        file = name(path)
        file.unlink()
        os.mkfifo(file)

    return damage


def refixed(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return a damage that edits the manifest and makes all seals fit."""
    return lambda path: resealed(path, change)


def pickle_bomb(path: Path) -> None:
    """Replace the pickle of a `.pt` shard by one of equal length that would make a file when loaded."""
    target = shard(path)
    with zipfile.ZipFile(target) as archive:
        info = archive.getinfo("archive/data.pkl")
        length = info.file_size
    marker = path.parent.parent / "executed"
    code = f"c__builtin__\nexec\n(Vopen({str(marker)!r}, 'w')\ntR.".encode()
    data = target.read_bytes()
    start = data.index(b"\x80\x02}q")
    target.write_bytes(data[:start] + code.ljust(length, b".")[:length] + data[start + length :])


FAULTS: dict[str, Fault] = {
    "zero length": Fault(cut(lambda size: 0), ShardError, "0 bytes"),
    "cut to one byte": Fault(cut(lambda size: 1), ShardError, "1 bytes"),
    "cut behind the header": Fault(cut(lambda size: 64), ShardError, "64 bytes"),
    "cut to half": Fault(cut(lambda size: size // 2), ShardError, "bytes"),
    "cut by one byte": Fault(cut(lambda size: size - 1), ShardError, "bytes"),
    "grown by one byte": Fault(cut(lambda size: size + 1), ShardError, "bytes"),
    "shard missing": Fault(lambda path: shard(path).unlink(), ShardError, "No such file"),
    "shard is a folder": Fault(in_place_of_file, ShardError, "bytes"),
    "link out of the artifact": Fault(linked, ShardError, "inside the artifact"),
    "another kind of file": Fault(other_kind, ShardError, "begins with"),
    "flipped bit in the first row": Fault(flipped(region), None, "rows 0"),
    "flipped bit in a label": Fault(flipped(lambda path: region(path, "label")), None, "label"),
    "flipped bit in the header": Fault(flipped(lambda path: 40), None, "SHA-256"),
    "flipped bit at the end": Fault(flipped(lambda path: -3), None, ""),
    "rows of others under a fitting SHA-256": Fault(rows_of_others, None, "rows 0"),
    "region moved with fitting seals": Fault(swapped_regions, None, "expected"),
    "shard is a pipe": Fault(pipe(shard), ShardError, "no regular file"),
    "manifest is a pipe": Fault(pipe(lambda path: path / "manifest.json"), ManifestError, "regular file"),
    "manifest with 5000 digits": Fault(
        lambda path: (path / "manifest.json").write_text('{"format_version": ' + "9" * 5000 + "}") and None,
        ManifestError,
        "JSON object",
    ),
    "constants beyond floats": Fault(
        refixed(lambda data: data["fields"][0].update(value_range=[0, 10**400])), ManifestError, "finite"
    ),
    "count beyond 64 bits": Fault(
        refixed(lambda data: first(data).update(first=1 << 63)), ManifestError, "2**63"
    ),
    "Python number with axes": Fault(
        refixed(lambda data: data["fields"][0].update(python="int")), ManifestError, "'image', python"
    ),
    "constants of another number of channels": Fault(
        refixed(
            lambda data: data["fields"][0].update(
                layout="CHW",
                normalisation={"mean": [0.5], "std": [0.5], "applied": False, "origin": "given"},
            )
        ),
        ManifestError,
        "'image', normalisation",
    ),
    "picture without axes": Fault(
        refixed(lambda data: data["fields"][1].update(layout="HWC")), ManifestError, "'label', layout"
    ),
    "32 axes": Fault(
        refixed(lambda data: data["fields"][0].update(shape=[3, 16, *[1] * 30])), ManifestError, "31 axes"
    ),
    "axes whose product is beyond 64 bits": Fault(
        refixed(lambda data: data["fields"][0].update(shape=[0, 1 << 62, 4])), ManifestError, "'image', shape"
    ),
    "rows beyond 64 bits": Fault(
        refixed(lambda data: data["fields"][0].update(shape=[0, 1 << 62])), ManifestError, "2**63 bytes"
    ),
    "split without samples": Fault(
        refixed(
            lambda data: data["splits"].update(
                none={"samples": 0, "shards": [], "blocks": {"image": [], "label": []}}
            )
        ),
        ManifestError,
        "samples >= 1",
    ),
    "NUL in a class name": Fault(
        refixed(lambda data: data["fields"][1].update(classes=["a\0"])), ManifestError, "NUL"
    ),
    "NUL in the colour": Fault(
        refixed(lambda data: data["fields"][0].update(colour="R\0")), ManifestError, "NUL"
    ),
    "value range of three": Fault(
        refixed(lambda data: data["fields"][0].update(value_range=[0, 1, 2])), ManifestError, ""
    ),
    "null for an absent key": Fault(
        refixed(lambda data: data["fields"][0].update(colour=None)), ManifestError, "colour is null"
    ),
    "wrong count": Fault(
        edited(lambda data: first(data).update(samples=3)), ManifestError, "bytes for its rows"
    ),
    "wrong first row": Fault(edited(lambda data: first(data).update(first=1)), ManifestError, "first row"),
    "fewer samples than rows": Fault(
        edited(lambda data: data["splits"]["train"].update(samples=11)), ManifestError, "11 samples"
    ),
    "wrong dtype": Fault(
        edited(lambda data: data["fields"][0].update(dtype="int16")), ManifestError, "bytes for its rows"
    ),
    "wrong dtype of equal size": Fault(
        edited(lambda data: data["fields"][0].update(dtype="int8")), ForeignManifestError, "content_digest"
    ),
    "unknown dtype": Fault(
        edited(lambda data: data["fields"][0].update(dtype="uint9")), ManifestError, "uint9"
    ),
    "missing field": Fault(edited(lambda data: data["fields"].pop()), ManifestError, "one region for each"),
    "duplicate field": Fault(
        edited(lambda data: data["fields"].append(data["fields"][0])), ManifestError, "unique fields"
    ),
    "duplicate key": Fault(twice, ManifestError, "'name' twice"),
    "missing digests": Fault(
        edited(lambda data: data["splits"]["train"]["blocks"].update(image=[])), ManifestError, "digests"
    ),
    "oversize length": Fault(
        edited(lambda data: first(data)["fields"]["image"].update(bytes=1 << 60)), ManifestError, "bytes for"
    ),
    "region beyond the file": Fault(
        edited(lambda data: first(data)["fields"]["image"].update(offset=1 << 60)), ManifestError, "region"
    ),
    "regions that overlap": Fault(
        edited(lambda data: first(data)["fields"]["label"].update(first(data)["fields"]["image"], bytes=32)),
        ManifestError,
        "region",
    ),
    "negative offset": Fault(
        edited(lambda data: first(data)["fields"]["image"].update(offset=-1)), ManifestError, "-1"
    ),
    "absolute path": Fault(
        edited(lambda data: first(data).update(path="/etc/passwd")), UnsafePathError, "/etc/passwd"
    ),
    "path upwards": Fault(
        edited(lambda data: first(data).update(path="../outside.bin")), UnsafePathError, "../outside.bin"
    ),
    "empty path": Fault(edited(lambda data: first(data).update(path="")), UnsafePathError, "''"),
    "newer format version": Fault(
        edited(lambda data: data.update(format_version=2)), VersionError, "at most 1"
    ),
    "unknown required feature": Fault(
        edited(lambda data: data.update(required_features=["teleport"])), VersionError, "teleport"
    ),
    "unknown container": Fault(edited(lambda data: data.update(container="zip")), ManifestError, "'zip'"),
    "manifest of another artifact": Fault(foreign, ForeignManifestError, "recipe_id"),
    "changed without a new checksum": Fault(
        edited(lambda data: data.update(name="other"), resealed=False), ManifestError, "checksum"
    ),
    "manifest empty": Fault(
        lambda path: (path / "manifest.json").write_text("") and None, ManifestError, "JSON object"
    ),
    "manifest is no text": Fault(
        lambda path: (path / "manifest.json").write_bytes(b"\xff\xfe\x00") and None, ManifestError, "UTF-8"
    ),
    "manifest nested without end": Fault(
        lambda path: (path / "manifest.json").write_text("[" * 100_000) and None, ManifestError, "JSON object"
    ),
}
PT_FAULTS = {"pickle that runs code": Fault(pickle_bomb, None, "SHA-256")}


def broken(folder: Path, container: str) -> Iterator[tuple[str, Fault, Path]]:
    """Yield (name, fault, artifact) with the damage done, each in a folder of its own."""
    faults = {**FAULTS, **(PT_FAULTS if container == "pt" else {})}
    for number, (name, fault) in enumerate(faults.items()):
        path = sound(folder / f"{number:02d}-{name.replace(' ', '-')}", container)
        fault.damage(path)
        yield name, fault, path


if __name__ == "__main__":
    for kind in CONTAINERS:
        for label, _, made in broken(Path(sys.argv[1]) / kind, kind):
            print(kind, label, made)
