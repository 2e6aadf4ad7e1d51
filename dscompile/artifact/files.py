"""The shards of an artifact as files: there, inside it, and of the recorded size."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dscompile.artifact.manifest import Manifest
from dscompile.errors import ShardError

_REBUILD = "Build it again with --force, or remove it with 'dscompile rm'."


def check_shards(path: Path, manifest: Manifest) -> None:
    """Check that every shard is there, inside the artifact, with its recorded size; reads no bytes.

    Raises:
        ShardError: A shard is missing, is no regular file, leads out of the artifact, or has another size.
    """
    inside = os.path.realpath(path)
    for split in manifest.splits.values():
        for shard in split.shards:
            file = path / shard.path
            real = os.path.realpath(file)
            if os.path.commonpath((inside, real)) != inside:
                raise ShardError(str(file), "a file inside the artifact", f"a link to {real}", _REBUILD)
            try:
                found = os.stat(real)
            except OSError as error:
                raise ShardError(
                    str(file), f"a file of {shard.bytes} bytes", error.strerror or str(error), _REBUILD
                ) from error
            if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for without end
                raise ShardError(str(file), f"a file of {shard.bytes} bytes", "no regular file", _REBUILD)
            if found.st_size != shard.bytes:
                raise ShardError(str(file), f"{shard.bytes} bytes", f"{found.st_size} bytes", _REBUILD)
