"""The command line: one JSON object or one message, the right exit status, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from objects import left_behind

import dscompile
from dscompile.artifact.manifest import Manifest
from dscompile.cli.commands import cli

pytestmark = pytest.mark.usefixtures("no_open_files")
SMALL = "synthetic:train=12,test=6,size=8"


def run(*words: object, **options: Any) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], **options)


def data(*words: object) -> dict[str, Any]:
    """Run a command with --json that succeeds, and return the one object it prints."""
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refused(*words: object, code: int = 1) -> str:
    """Run a command that fails, with and without --json, and return its message: one, and no traceback."""
    for extra in ([], ["--json"]):
        result = run(*words, *extra)
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit)
        if code == 1:
            assert result.stderr.startswith("error: ")
            assert result.stderr.count("\n") == 1
    return result.stderr


def test_build_prints_one_object(store: Path) -> None:
    found = data("build", SMALL, "--store", store)
    manifest = Manifest.read(Path(found["artifact"]))
    seconds = found.pop("seconds")
    assert isinstance(seconds, float)
    assert found == {
        "artifact": str(store / "synthetic" / manifest.recipe_id[:12]),
        "name": "synthetic",
        "recipe_id": manifest.recipe_id,
        "content_digest": manifest.content_digest,
        "built": True,
        "splits": {"train": 12, "test": 6},
        "bytes": sum(file.stat().st_size for file in Path(found["artifact"]).glob("*.pt")),
    }
    again = data("build", SMALL, "--store", store)
    assert again == {**found, "built": False, "seconds": again["seconds"]}


def test_a_hit_is_one_line_and_silent_on_stderr(store: Path) -> None:
    assert run("build", SMALL, "--store", store).stdout.startswith("built ")
    result = run("build", SMALL, "--store", store)
    assert result.stderr == ""
    assert result.stdout.startswith("found ")
    assert "dscompile.open(" in result.stdout


def test_every_option_reaches_the_recipe(store: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def halve(picture):\n    return picture.resize((8, 8))\n")
    words = f"""--split test --format hdf5 --dtype float16 --layout HWC --normalize 0.5,0.4,0.3/0.2,0.25,0.3
        --resize 7 --crop 6 --transform {tmp_path / "mine.py"}:halve --name mine --version 3 --workers 2
        --shard-bytes 1KB --limit 5 --allow-nonfinite --quiet""".split()
    found = data("build", SMALL, *words, "--store", store)
    assert found["name"] == "mine"
    assert found["splits"] == {"test": 5}
    recipe = Manifest.read(Path(found["artifact"])).recipe
    steps = {step["step"]: step for step in recipe["steps"]}
    assert steps["transform"]["object"] == "mine.halve"
    assert steps["resize"]["size"] == 7
    assert steps["crop"]["size"] == 6
    assert steps["convert"]["dtype"] == "float16"
    assert steps["normalize"]["constants"] == {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.25, 0.3]}
    assert steps["layout"]["layout"] == "HWC"
    assert recipe["source"]["user_version"] == "3"
    assert recipe["source"]["limit"] == 5
    output = {key: recipe["output"][key] for key in ("container", "shard_bytes", "allow_nonfinite")}
    assert output == {"container": "hdf5", "shard_bytes": 1000, "allow_nonfinite": True}
    python = dscompile.build(
        SMALL,
        store=store,
        split=["test"],
        format="hdf5",
        dtype="float16",
        layout="HWC",
        normalize=((0.5, 0.4, 0.3), (0.2, 0.25, 0.3)),
        resize=7,
        crop=6,
        transform=f"{tmp_path / 'mine.py'}:halve",
        name="mine",
        version="3",
        shard_bytes=1000,
        limit=5,
        allow_nonfinite=True,
    )
    assert not python.built  # the keywords of Python are the options of the command


def test_a_dry_run_builds_nothing(store: Path) -> None:
    found = data("build", SMALL, "--store", store, "--dry-run")
    assert (found["dry_run"], found["built"]) == (True, False)
    plan = found["plan"]
    assert plan["splits"]["train"] == {"samples": 12, "shards": ["train-00000-of-00001.pt"]}
    assert plan["bytes"] == 18 * (3 * 8 * 8 * 4 + 8)
    assert not store.exists()
    assert "would build" in run("build", SMALL, "--store", store, "--dry-run").stdout
    assert not store.exists()
    assert data("build", SMALL, "--store", store)["artifact"] == found["artifact"]


def test_list_prints_every_artifact(store: Path) -> None:
    assert data("list", "--store", store) == {"artifacts": []}
    assert "no artifacts" in run("list", "--store", store).stdout
    built = [data("build", SMALL, "--store", store, "--name", name) for name in ("b", "a")]
    found = data("list", "--store", store)["artifacts"]
    assert [item["name"] for item in found] == ["a", "b"]
    for item, one in zip(found, reversed(built), strict=True):
        assert list(item) == ["name", "id", "path", "format", "splits", "bytes", "created", "last_used"]
        assert item["path"] == one["artifact"]
        assert item["id"] == one["recipe_id"][:12]
        assert (item["format"], item["splits"], item["bytes"]) == ("pt", one["splits"], one["bytes"])
        assert item["created"].endswith("+00:00")
    assert "synthetic" not in run("list", "--store", store).stdout


def test_list_shows_a_damaged_artifact_without_failing(store: Path) -> None:
    path = Path(data("build", SMALL, "--store", store)["artifact"])
    (path / "manifest.json").write_text("{")
    found = data("list", "--store", store)["artifacts"]
    assert [(item["path"], "problem" in item) for item in found] == [(str(path), True)]
    assert "damaged" in run("list", "--store", store).stdout


def test_info_prints_the_manifest(store: Path) -> None:
    path = Path(data("build", SMALL, "--store", store)["artifact"])
    for reference in ("synthetic", f"synthetic@{path.name[:5]}", path):
        assert data("info", reference, "--store", store) == json.loads((path / "manifest.json").read_text())
    text = run("info", "synthetic", "--store", store).stdout
    assert "image" in text
    assert "float32" in text
    assert Manifest.read(path).content_digest in text


def test_verify_says_what_differs(store: Path) -> None:
    path = Path(data("build", SMALL, "--store", store)["artifact"])
    assert data("verify", "synthetic", "--store", store) == {"ok": True, "problems": []}
    assert run("verify", "synthetic", "--store", store).stdout == f"ok {path}\n"
    shard = path / "train-00000-of-00001.pt"
    region = Manifest.read(path).splits["train"].shards[0].regions["label"]
    bytes_ = bytearray(shard.read_bytes())
    bytes_[region[0]] ^= 1
    shard.write_bytes(bytes_)
    result = run("verify", "synthetic", "--store", store, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert not found["ok"]
    assert [list(item) for item in found["problems"]] == [["shard", "field", "rows", "expected", "got"]]
    assert found["problems"][0]["shard"] == shard.name
    assert found["problems"][0]["field"] == "label"
    assert found["problems"][0]["rows"] == [0, 11]
    plain = run("verify", path, "--store", store)
    assert plain.exit_code == 1
    assert shard.name in plain.stderr
    assert data("verify", "synthetic", "--store", store, "--quick")["ok"]
    os.truncate(shard, 100)
    assert run("verify", "synthetic", "--store", store, "--quick").exit_code == 1


def test_rm_removes_one_artifact(store: Path) -> None:
    paths = [data("build", SMALL, "--store", store, "--name", name)["artifact"] for name in ("one", "two")]
    assert data("rm", "one", "--store", store) == {"removed": paths[0]}
    assert [item["name"] for item in data("list", "--store", store)["artifacts"]] == ["two"]
    (Path(paths[1]) / "manifest.json").write_text("damaged")
    assert run("rm", "two", "--store", store).stdout == f"removed {paths[1]}\n"
    assert left_behind(store) == []


def test_rm_spares_what_is_not_ours(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of another program's with a manifest.json, by path, as `.`, or of the name that is meant."""
    data("build", SMALL, "--store", store)
    app = tmp_path / "work" / "synthetic"
    app.mkdir(parents=True)
    (app / "manifest.json").write_text('{"name": "My app", "manifest_version": 3}')
    (app / "precious").write_text("x")
    refused("rm", app, "--store", store)
    monkeypatch.chdir(app)
    refused("rm", ".", "--store", store)
    monkeypatch.chdir(app.parent)
    run("rm", "synthetic", "--store", store)
    assert (app / "precious").read_text() == "x"


def test_the_store_comes_from_the_environment(store: Path) -> None:
    found = run("build", SMALL, "--json", env={"DSCOMPILE_STORE": str(store)})
    assert json.loads(found.stdout)["artifact"].startswith(str(store))


@pytest.mark.parametrize("command", ["info", "verify", "rm"])
def test_an_artifact_that_is_not_there(command: str, store: Path, tmp_path: Path) -> None:
    assert "empty store" in refused(command, "cifar10", "--store", store)
    assert "no such folder" in refused(command, tmp_path / "nothing", "--store", store) or command == "rm"
    refused(command, tmp_path, "--store", store)
    refused(command, "x" * 300, "--store", store)
    assert not store.exists()


@pytest.mark.parametrize("command", ["info", "verify", "rm"])
def test_an_ambiguous_name_lists_the_candidates(command: str, store: Path) -> None:
    ids = [
        Path(data("build", SMALL, "--store", store, "--dtype", dtype)["artifact"]).name
        for dtype in ("float32", "uint8")
    ]
    message = refused(command, "synthetic", "--store", store)
    assert all(f"synthetic@{item}" in message for item in ids)
    assert len(data("list", "--store", store)["artifacts"]) == 2


@pytest.mark.parametrize(
    "damage", ["version", "half", "empty", "folder", "list", "nan", "surrogate", "no shard", "cut shard"]
)
@pytest.mark.parametrize("command", ["info", "verify", "build"])
def test_a_damaged_artifact_is_one_message(command: str, damage: str, store: Path) -> None:
    # BR-58: no KeyError, no traceback
    path = Path(data("build", SMALL, "--store", store)["artifact"])
    file, shard = path / "manifest.json", path / "train-00000-of-00001.pt"
    text = file.read_text()
    if damage == "folder":
        file.unlink()
        file.mkdir()
    elif damage == "no shard":
        shard.unlink()
    elif damage == "cut shard":
        os.truncate(shard, 10)
    else:
        changed = {
            "version": text.replace('"format_version": 1', '"format_version": 2'),
            "half": text[: len(text) // 2],
            "empty": "",
            "list": "[]",
            "nan": text.replace('"seconds": ', '"seconds": NaN, "other": '),
            "surrogate": text.replace('"name": "synthetic"', '"name": "\\ud800"'),
        }
        file.write_text(changed[damage])
    about = SMALL if command == "build" else path
    if "shard" in damage and command != "build":
        assert run(command, about, "--store", store).exit_code == (1 if command == "verify" else 0)
        return
    message = refused(command, about, "--store", store)
    assert str(path) in message
    if damage == "version":
        assert "at most 1, got 2" in message


BAD_USAGE = [
    ["build"],
    ["build", SMALL, "--format", "zip"],
    ["build", SMALL, "--dtype", "float64"],
    ["build", SMALL, "--layout", "NHWC"],
    ["build", SMALL, "--resize", "0"],
    ["build", SMALL, "--crop", "-1"],
    ["build", SMALL, "--crop", "big"],
    ["build", SMALL, "--limit", "0"],
    ["build", SMALL, "--workers", "0"],
    ["build", SMALL, "--shard-bytes", "0"],
    ["build", SMALL, "--shard-bytes", "1XB"],
    ["build", SMALL, "--shard-bytes", "-5"],
    ["build", SMALL, "--normalize", "mean"],
    ["build", SMALL, "--normalize", "1,2"],
    ["build", SMALL, "--normalize", "1/2/3"],
    ["build", SMALL, "--unknown"],
    ["build", SMALL, "more"],
    ["info"],
    ["unknown"],
]


@pytest.mark.parametrize("words", BAD_USAGE, ids=" ".join)
def test_wrong_usage_is_exit_status_2(words: list[str], store: Path) -> None:
    result = run(*words, *(["--store", str(store)] if words != ["unknown"] else []))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error:" in result.stderr
    assert not store.exists()


BAD_INPUT = {
    "an unknown dataset": (["cifar-10"], "`cifar10`"),
    "a dataset like another": (["fashion_mnist"], "`fashion-mnist`"),
    "an unknown variant": (["emnist:balance"], "emnist:balanced"),
    "an unknown option of synthetic": (["synthetic:trian=5"], "`train`"),
    "synthetic out of range": (["synthetic:size=1"], "8 … 1024"),
    "an unknown split": ([SMALL, "--split", "validation"], "train, test"),
    "constants out of range": ([SMALL, "--normalize", "0.5,0.5,0.5/0,1,1"], "channel 0"),
    "constants on 0-255": ([SMALL, "--normalize", "123,116,103/58,57,57"], "divided by 255"),
    "constants that are no numbers": ([SMALL, "--normalize", "nan,0,0/1,1,1"], "nan"),
    "too few constants": ([SMALL, "--normalize", "0.5/0.5"], "3 means"),
    "an unknown module": (["no_such_module:thing"], "no_such_module"),
    "an unknown attribute": (["math:pie"], "`pi`"),
    "a missing file": (["nothing.py:thing"], "nothing.py"),
    "an unknown transform": ([SMALL, "--transform", "math:pie"], "`pi`"),
    "a transform without a colon": ([SMALL, "--transform", "math"], "module:attr"),
    "an empty source": ([""], "name of a source"),
    "no dataset": (["math:pi"], "map-style"),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_one_message_and_leaves_nothing(name: str, store: Path) -> None:
    words, expected = BAD_INPUT[name]
    assert expected in refused("build", *words, "--store", store)
    assert not store.exists()


@pytest.mark.parametrize("command", ["build", "list", "info", "verify", "rm"])
def test_a_store_that_is_a_file(command: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    about = [] if command == "list" else [SMALL if command == "build" else "synthetic"]
    assert "a directory for artifacts" in refused(command, *about, "--store", file)
    assert file.read_text() == "x"


@pytest.mark.parametrize("place", ["file/below", "/proc/dscompile-store"])
def test_a_store_that_cannot_be_written(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    message = refused("build", SMALL, "--store", tmp_path / place)
    assert place in message
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("place", ["file/below", "/proc/dscompile-root"])
def test_a_root_that_cannot_be_written(place: str, tmp_path: Path, store: Path) -> None:
    (tmp_path / "file").write_text("x")
    message = refused("build", "mnist", "--root", tmp_path / place, "--store", store)
    assert place in message
    assert left_behind(store) == []
    assert (tmp_path / "file").read_text() == "x"


def test_files_with_other_checksums(cifar_root: Path, store: Path) -> None:
    message = refused("build", "cifar10", "--root", cifar_root, "--store", store)
    assert "--no-source-check" in message
    assert "5ff9c542aee3614f3951f8cda6e48888" in message  # the published one of batches.meta
    assert left_behind(store) == []
    found = data("build", "cifar10", "--root", cifar_root, "--store", store, "--no-source-check")
    assert found["splits"] == {"train": 10, "test": 3}
    notes = data("info", "cifar10", "--store", store)["notes"]
    assert notes["published_checksums"] == "not checked"


def test_code_of_the_user_that_fails_is_one_message(store: Path, tmp_path: Path) -> None:
    (tmp_path / "failing_code.py").write_text(
        "class Bad:\n    def __len__(self): return 9\n"
        "    def __getitem__(self, i):\n"
        "        if i == 4: raise ValueError('no such picture')\n        return i\n"
        "def spoil(picture): raise ValueError('not today')\n"
    )
    file = tmp_path / "failing_code.py"
    message = refused("build", f"{file}:Bad", "--store", store)
    assert "sample 4" in message
    assert "no such picture" in message
    message = refused("build", SMALL, "--transform", f"{file}:spoil", "--store", store)
    assert "sample 0" in message
    assert "not today" in message
    assert left_behind(store) == []


def test_random_steps_are_refused(store: Path, tmp_path: Path) -> None:
    (tmp_path / "random_steps.py").write_text(
        "from torchvision.transforms import Compose, Grayscale, RandomCrop\n"
        "crop = Compose([Grayscale(3), RandomCrop(4)])\n"
    )
    message = refused("build", SMALL, "--transform", f"{tmp_path / 'random_steps.py'}:crop", "--store", store)
    assert "RandomCrop at transforms[1]" in message
    assert left_behind(store) == []


def test_force_builds_anew(store: Path) -> None:
    first = data("build", SMALL, "--store", store)
    assert data("build", SMALL, "--store", store, "--force") | {"seconds": 0} == {**first, "seconds": 0}
    shard = Path(first["artifact"]) / "train-00000-of-00001.pt"
    whole = shard.read_bytes()
    os.truncate(shard, 10)
    assert data("build", SMALL, "--store", store, "--force")["built"]
    assert shard.read_bytes() == whole


def test_the_module_and_its_help(store: Path) -> None:
    def process(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dscompile", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    built = process("build", SMALL, "--store", str(store), "--json")
    assert (built.returncode, built.stderr) == (0, "")
    assert json.loads(built.stdout)["built"]
    hit = process("build", SMALL, "--store", str(store), "--json")
    assert (hit.returncode, hit.stderr, json.loads(hit.stdout)["built"]) == (0, "", False)
    failed = process("build", "cifar-10", "--store", str(store))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("error: ")
    text = process("--help").stdout
    assert all(command in text for command in ("build", "list", "info", "verify", "rm"))
    assert process("--version").stdout == f"dscompile, version {dscompile.__version__}\n"


def test_removing_while_reading(store: Path) -> None:
    data("build", SMALL, "--store", store)
    with dscompile.open("synthetic", "train", store=store) as dataset:
        before = dataset[3][0]
        data("rm", "synthetic", "--store", store)
        assert (dataset[3][0] == before).all()
    shutil.rmtree(store, ignore_errors=True)
