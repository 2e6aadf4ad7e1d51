"""Broken and hostile artifacts: each is refused with an error of its own, and nothing is executed."""

from __future__ import annotations

from pathlib import Path

import broken
import pytest

import dscompile
from dscompile.artifact.manifest import Manifest
from dscompile.errors import DscompileError
from dscompile.formats.verify import verify

ALL = [
    (container, name)
    for container in broken.CONTAINERS
    for name in [*broken.FAULTS, *(broken.PT_FAULTS if container == "pt" else {})]
]


@pytest.mark.parametrize(("container", "name"), ALL, ids=[f"{kind}-{name}" for kind, name in ALL])
def test_fault_is_refused_by_name(container: str, name: str, tmp_path: Path) -> None:
    fault = {**broken.FAULTS, **broken.PT_FAULTS}[name]
    path = broken.sound(tmp_path, container)
    fault.damage(path)
    if fault.error is None:
        problems = verify(path, Manifest.read(path))
        assert problems
        assert fault.names in " ".join(map(str, problems))
        return
    with pytest.raises(fault.error) as caught, dscompile.open(path, "train") as dataset:
        dataset[:]
    assert type(caught.value) is fault.error
    assert fault.names in str(caught.value)
    error = caught.value
    assert isinstance(error, DscompileError)
    assert all((error.place, error.expected, error.got, error.cure))


def test_code_in_a_pickle_is_not_executed(tmp_path: Path) -> None:
    path = broken.sound(tmp_path, "pt")
    expected = dscompile.open(path)[5]
    broken.pickle_bomb(path)
    image, label = dscompile.open(path)[5]
    verify(path, Manifest.read(path))
    assert (image.tolist(), label) == (expected[0].tolist(), expected[1])
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("container", broken.CONTAINERS)
def test_every_cut_is_refused(container: str, tmp_path: Path) -> None:
    path = broken.sound(tmp_path, container)
    shard = broken.shard(path)
    data = shard.read_bytes()
    for size in {*range(0, 64), *range(0, len(data), 512), len(data) - 1}:
        shard.write_bytes(data[:size])
        with pytest.raises(broken.ShardError, match="bytes"):
            dscompile.open(path)
    shard.write_bytes(data)
    assert verify(path, Manifest.read(path)) == []


@pytest.mark.parametrize("container", broken.CONTAINERS)
def test_every_flipped_byte_is_found(container: str, tmp_path: Path) -> None:
    path = broken.sound(tmp_path, container)
    shard = broken.shard(path)
    data = bytearray(shard.read_bytes())
    for offset in range(0, len(data), 97):
        data[offset] ^= 0x01
        shard.write_bytes(data)
        assert verify(path, Manifest.read(path)), offset
        data[offset] ^= 0x01
