"""The house: imports point down only, rooms load nothing heavy, files stay short, names stay as they are."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dscompile

PACKAGE = Path(dscompile.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
ROOT = "front door"
ROOMS = {"cli": 3, "api": 3, "compiler": 2, "runtime": 2, "sources": 1, "formats": 1, "artifact": 0}
FLOORS = {**ROOMS, "errors": 0, "version": 0, "__main__": 4, ROOT: 4}
# Rooms of one floor that may see each other; artifact and the two plain files are one floor.
SAME_FLOOR = {("cli", "api"), ("artifact", "errors"), ("__main__", "cli")}


def module_of(file: Path) -> str:
    parts = ["dscompile", *file.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file) for file in FILES}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ROOT


def typing_only(tree: ast.Module) -> set[ast.AST]:
    """Return the nodes below `if TYPE_CHECKING:`, which import nothing."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found.update(inner for part in node.body for inner in ast.walk(part))
    return found


def imports(file: Path, *, typing: bool) -> Iterator[tuple[int, str]]:
    """Yield (line, imported module) of a file, those inside functions too."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = set() if typing else typing_only(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield node.lineno, inner if inner in MODULES else str(node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            # The tables of names resolved on first use: their modules are texts in the file.
            for text in ast.walk(tree):
                if isinstance(text, ast.Constant) and text.value in MODULES:
                    yield node.lineno, str(text.value)


def own(file: Path, *, typing: bool = False) -> Iterator[tuple[int, str]]:
    return ((line, name) for line, name in imports(file, typing=typing) if name.split(".")[0] == "dscompile")


def test_every_room_has_a_floor() -> None:
    assert {room_of(module) for module in MODULES} == set(FLOORS)


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_imports_point_down(file: Path) -> None:
    here = room_of(module_of(file))
    for line, name in own(file, typing=True):
        there = room_of(name)
        place = f"{file}:{line}: {here} imports {name}"
        if there == here:
            continue
        assert FLOORS[there] < FLOORS[here] or (here, there) in SAME_FLOOR, place
        assert there != "sources" or here in ("compiler", "api", "cli"), place


@pytest.mark.parametrize("file", [f for f in FILES if module_of(f) != "dscompile"], ids=module_of)
def test_nothing_inside_imports_the_front_door(file: Path) -> None:
    assert "dscompile" not in {name for _, name in own(file, typing=True)}


@pytest.mark.parametrize("pair", [("runtime", "compiler"), ("sources", "formats")])
def test_neighbours_do_not_know_each_other(pair: tuple[str, str]) -> None:
    for file in FILES:
        here = room_of(module_of(file))
        if here in pair:
            assert {room_of(name) for _, name in own(file, typing=True)} & set(pair) <= {here}, file


def test_no_import_leads_back() -> None:
    # What only types need, and what a function imports when it runs, makes no cycle at import.
    graph = {
        module_of(file): {name for _, name in own(file)} for file in FILES if room_of(module_of(file)) != ROOT
    }
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way[way.index(module) :], module))
        if module not in done:
            for name in graph.get(module, set()) - {module}:
                visit(name, (*way, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_the_artifact_room_needs_the_standard_library_only() -> None:
    allowed = {*sys.stdlib_module_names, "dscompile", "platformdirs"}
    for file in FILES:
        if room_of(module_of(file)) in ("artifact", "errors", "version"):
            assert {name.split(".")[0] for _, name in imports(file, typing=True)} <= allowed, file


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("click", {"cli"}),
        ("rich", {"cli"}),
        ("h5py", {"formats"}),
        ("lmdb", {"formats"}),
        ("torchvision", {"sources"}),
        ("PIL", {"sources", "compiler"}),
    ],
)
def test_a_library_lives_in_its_rooms(library: str, rooms: set[str]) -> None:
    used = {
        room_of(module_of(file))
        for file in FILES
        for _, name in imports(file, typing=False)
        if name.split(".")[0] == library
    }
    assert used <= rooms


@pytest.mark.parametrize("file", FILES, ids=module_of)
def test_files_stay_short(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 300
    assert file.stem not in ("utils", "helpers", "common", "misc")


def test_public_names() -> None:
    assert sorted(dscompile.__all__) == [
        "Artifact",
        "CompiledDataset",
        "DscompileError",
        "Loader",
        "__version__",
        "augment",
        "build",
        "compile",
        "convert",
        "open",
    ]
    assert dir(dscompile) == sorted(dscompile.__all__)
    for name in dscompile.__all__:
        assert getattr(dscompile, name) is not None
    with pytest.raises(AttributeError, match="nothing_here"):
        dscompile.nothing_here  # noqa: B018


def loaded(code: str, *watched: str, folder: Path) -> set[str]:
    """Run code in a new process and return which of the watched modules it has loaded."""
    watch = f"\nimport sys\nprint('LOADED', *(name for name in {watched!r} if name in sys.modules))"
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code + watch],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    return set(found.stdout.rpartition("LOADED")[2].split())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("house")
    dscompile.build("synthetic:train=20,test=10,size=8", store=store)
    return store


HEAVY = ("click", "rich", "torchvision", "PIL", "h5py", "lmdb", "dscompile.sources", "dscompile.compiler")


def test_importing_does_no_work(tmp_path: Path) -> None:
    code = (
        "import dscompile, sys; assert not [name for name in sys.modules if name.startswith('dscompile.api')]"
    )
    assert loaded(code, "torch", "numpy", *HEAVY, folder=tmp_path) == set()
    assert not list(tmp_path.iterdir())


def test_reading_a_batch_is_light(built: Path, tmp_path: Path) -> None:
    code = (
        f"import dscompile\nds = dscompile.open('synthetic', 'train', store={str(built)!r})\n"
        "images, labels = next(iter(ds.loader(4, shuffle=True)))\nassert images.shape == (4, 3, 8, 8)\n"
        "ds[0]; ds[[1, 2]]; ds.targets"
    )
    assert loaded(code, "torch", *HEAVY, folder=tmp_path) == {"torch"}


@pytest.mark.parametrize("command", ["info", "list", "rm", "--help", "--version"])
def test_a_command_that_only_looks_loads_no_torch(command: str, built: Path, tmp_path: Path) -> None:
    words = {"info": ["synthetic", "--json"], "list": ["--json"], "rm": ["nothing-there"]}.get(command, [])
    arguments = ["dscompile", command, *words, *(["--store", str(built)] if words else [])]
    code = (
        f"import sys\nsys.argv = {arguments!r}\nfrom dscompile.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass"
    )
    assert loaded(code, "torch", "numpy", "torchvision", "PIL", "h5py", "lmdb", folder=tmp_path) == set()


@pytest.mark.parametrize("source", ["synthetic:train=20,test=10,size=8", "cifar10"])
def test_a_hit_imports_no_torchvision(source: str, store: Path, cifar_root: Path, tmp_path: Path) -> None:
    options = f"store={str(store)!r}, root={str(cifar_root)!r}, source_check=False"
    dscompile.build(source, store=store, root=cifar_root, source_check=False)
    code = f"import dscompile\nassert not dscompile.build({source!r}, {options}).built"
    assert loaded(code, "torchvision", "PIL", "h5py", "lmdb", "click", folder=tmp_path) == set()
