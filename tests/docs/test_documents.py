"""The pages are true: their code runs, their links resolve, and they name every key and every option."""

from __future__ import annotations

import json
import os
import pickle
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import dscompile
from dscompile.cli.commands import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN, SHOWN = ("python", "bash"), ("text",)
# What the shim adds to a command of the pages: the tests have no network, and their CIFAR-10 is a tiny one.
SHIM = """#!/bin/sh
case "$1 $2" in "build cifar10") set -- "$@" --no-source-check ;; esac
exec "{python}" -m dscompile "$@"
"""


class Block(NamedTuple):
    """One fenced block: its line in the page, its info string, the directive before it, its text."""

    line: int
    info: str
    directive: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page. A directive is an HTML comment on the line before the fence."""
    lines = page.read_text(encoding="utf-8").splitlines()
    position = 0
    while position < len(lines):
        if not lines[position].lstrip().startswith("```"):
            position += 1
            continue
        assert lines[position].startswith("```"), f"{page.name}:{position + 1}: an indented fence"
        end = lines.index("```", position + 1)
        comment = re.fullmatch(r"<!-- (.+) -->", lines[position - 1])
        text = "\n".join(lines[position + 1 : end]) + "\n"
        yield Block(position + 1, lines[position][3:], comment[1] if comment else "", text)
        position = end + 1


def script(page: Path) -> str:
    """Return the blocks of a page as one Python program whose line numbers are those of the page."""
    lines: list[str] = []
    for block in blocks(page):
        place = f"{page.name}:{block.line}"
        assert block.info in (*RUN, *SHOWN), f"{place}: unknown info string {block.info!r}"
        kind, colon, detail = block.directive.partition(": ")
        assert not block.directive or (kind in ("not run", "file") and colon and detail), (
            f"{place}: unknown directive {block.directive!r}"
        )
        if block.info in SHOWN or kind == "not run":
            continue
        lines += [""] * (block.line - len(lines))
        if kind == "file":
            lines.append(f"__import__('pathlib').Path({detail!r}).write_text({block.text!r})")
        elif block.info == "bash":
            lines.append(f"__import__('subprocess').run(['bash', '-euc', {block.text!r}], check=True)")
        else:
            lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def tiny_cifar10(root: Path) -> None:
    """Write 50 + 10 pictures in the real layout of CIFAR-10."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for seed, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        data = np.random.default_rng(seed).integers(0, 256, (10, 3072), np.uint8)
        (folder / name).write_bytes(pickle.dumps({"data": data, "labels": list(range(10))}))
    names = {"label_names": [f"kind {number}" for number in range(10)]}
    (folder / "batches.meta").write_bytes(pickle.dumps(names))


def tiny_fashion_mnist(root: Path) -> None:
    """Write 4 + 4 pictures in the real layout of Fashion-MNIST."""
    folder = root / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    for stem in ("train", "t10k"):
        images = np.arange(4 * 28 * 28).reshape(4, 28, 28) % 256
        for kind, array in (("images-idx3", images), ("labels-idx1", np.arange(4))):
            head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
            (folder / f"{stem}-{kind}-ubyte").write_bytes(head + array.astype(np.uint8).tobytes())


def names(paths: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in paths]


RUNNABLE = [page for page in PAGES if any(block.info in RUN for block in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=names(RUNNABLE))
def test_blocks_run_as_printed(page: Path, tmp_path: Path) -> None:
    store, tools, work = (tmp_path / name for name in ("store", "tools", "work"))
    for folder in (tools, work):
        folder.mkdir()
    tiny_cifar10(store / "downloads")
    command = tools / "dscompile"
    command.write_text(SHIM.format(python=sys.executable))
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    program = work / f"{page.stem.lower()}_page.py"
    program.write_text(script(page), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", program.name],
        cwd=work,
        env={
            **os.environ,
            "DSCOMPILE_STORE": str(store),
            "PATH": os.pathsep.join([str(tools), os.environ["PATH"]]),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{page.name} (line numbers are the page's)\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_blocks_have_known_directives(page: Path) -> None:
    assert isinstance(script(page), str)  # it raises at an unknown one


def test_an_unknown_directive_or_info_string_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for text in ("<!-- skip -->\n```python\n1 / 0\n```\n", "```pyhton\n1 / 0\n```\n"):
        page.write_text(text)
        with pytest.raises(AssertionError, match="unknown"):
            script(page)


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_relative_links_resolve(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+://", target):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{page.name}: {target}"
        assert found.is_relative_to(ROOT), f"{page.name}: {target} leaves the repository"
        assert not anchor or anchor in anchors(found), f"{page.name}: {target}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, made as the usual renderers make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_decision_has_its_number_and_parts() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [record.name[:3] for record in records] == [f"{n:03d}" for n in range(1, len(records) + 1)]
    for record in records:
        text = record.read_text(encoding="utf-8")
        assert text.startswith(f"# {record.name[:3]} ")
        for part in ("**Choice.**", "**Reason.**", "**Measurement.**"):
            assert part in text, f"{record.name}: {part}"


def test_every_option_of_build_is_described() -> None:
    page = (ROOT / "docs" / "building.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `(--[a-z-]+)`", page, flags=re.MULTILINE))
    build = cli.commands["build"]
    options = {name for param in build.params for name in param.opts if name.startswith("--")}
    assert described == options | {"--help"}


def test_every_command_is_described() -> None:
    page = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")
    assert [name for name in cli.commands if f"dscompile {name}" not in page] == []


def test_every_error_of_the_table_is_what_it_says() -> None:
    import builtins

    from dscompile import errors

    page = (ROOT / "docs" / "building.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+Error`(?:, )?)+) \| `(\w+)` \|", page, flags=re.MULTILINE)
    assert len(rows) > 8
    for classes, builtin in rows:
        for name in re.findall(r"\w+", classes):
            assert issubclass(getattr(errors, name), getattr(builtins, builtin))


# Keys of the manifest whose own keys are names: what stands for them on the page.
OPEN = {
    "splits": "SPLIT",
    "recipe.source.objects": "SPLIT",
    "splits.SPLIT.blocks": "FIELD",
    "splits.SPLIT.statistics": "FIELD",
    "splits.SPLIT.shards[].fields": "FIELD",
    "splits.SPLIT.statistics.FIELD.class_counts": "CLASS",
    "bytes.resident": "DTYPE",
    "writer": "LIBRARY",
}


def keys(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every key in a manifest, as `fields[].name`, with names replaced as in `OPEN`."""
    if isinstance(value, list):
        for item in value:
            yield from keys(item, f"{path}[]")
    elif isinstance(value, dict):
        for key, item in value.items():
            name = OPEN.get(path, key)
            below = f"{path}.{name}" if path else name
            yield below
            yield from keys(item, below)


def described() -> dict[str, bool]:
    """Return key -> whether it is optional, as the tables of the page say."""
    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", page, flags=re.MULTILINE)
    return {key: "*optional*" in kind for key, kind in rows}


class Grey:
    """Samples of every kind of field, with a number that is not finite."""

    classes = ("even", "odd")

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full(2, np.nan if index else 1.0), "label": index % 2, "flag": bool(index)}


def upside_down(picture: Any) -> Any:
    return picture.rotate(180)


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The manifests of builds that between them write every key."""
    store = tmp_path_factory.mktemp("store")
    tiny_fashion_mnist(store / "downloads")
    spec, constants = "synthetic:train=20,test=10", ((0.5,) * 3, (0.25,) * 3)
    built = [
        dscompile.build(spec, store=store),
        dscompile.build(spec, store=store, resize=16, crop=8, normalize=constants, transform=upside_down),
        dscompile.build("fashion-mnist", store=store, source_check=False),
        dscompile.build(Grey(), store=store, allow_nonfinite=True, version="1"),
        dscompile.build(f"{__file__}:Grey", store=store, allow_nonfinite=True, workers=1),
    ]
    built.append(dscompile.convert(built[0].path, format="hdf5", compression="gzip", store=store))
    return [json.loads((artifact.path / "manifest.json").read_text("utf-8")) for artifact in built]


def test_every_key_that_is_written_is_described(manifests: list[dict[str, Any]]) -> None:
    written = {key for manifest in manifests for key in keys(manifest)}
    assert written - described().keys() == set()


def test_every_key_that_is_described_is_written(manifests: list[dict[str, Any]]) -> None:
    written = {key for manifest in manifests for key in keys(manifest)}
    assert described().keys() - written == set()


def test_keys_that_are_not_optional_are_always_written(manifests: list[dict[str, Any]]) -> None:
    for key, optional in described().items():
        parent = key.rpartition(".")[0].removesuffix("[]")
        for manifest in manifests:
            found = set(keys(manifest))
            inside = (
                not parent
                or any(other.startswith(f"{parent}.") for other in found)
                or (any(other.startswith(f"{parent}[].") for other in found))
            )
            if not optional and inside:
                assert key in found, f"{key} is missing and not marked optional"


def test_the_listed_dtypes_are_those_that_can_be_stored() -> None:
    from dscompile.artifact.fields import STORED_AS

    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    table = page.partition("stored as (NumPy)")[2].partition("\n\n")[0].replace("\\|", "¦")
    cells = dict(re.findall(r"\| (\w+) \| `([^`]+)`", table))
    assert {name: kind.replace("¦", "|") for name, kind in cells.items()} == dict(STORED_AS)
