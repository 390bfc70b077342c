"""The tree keeps its promises: imports point up the list, packages' __init__ stay empty, dvc.yaml is what the code says."""

import ast
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from dataplane.stage_graph import Inputs, dvc_yaml

ROOT = Path(__file__).parents[1]

# A module imports only from those above it (and its own package).
ORDER = [
    "errors", "collector", "schema", "params", "settings", "conversation", "models", "operator", "source", "registry", "kernels", "lake",
    "snapshot", "tombstones", "dvc", "history", "api", "lockfile", "contract", "isolated", "ruleset", "deciding", "engine", "sources",
    "annotators", "transforms", "rules", "pipeline", "pipeline_change", "corpus", "lineage", "publish", "report", "sample", "stages",
    "testing", "catalogue", "checks", "template", "stage_graph", "upkeep", "project", "commands", "cli", "__main__",
]  # fmt: skip
TRAINPLANE_MAY_IMPORT = (
    "errors", "schema", "params", "settings", "registry", "conversation", "snapshot", "lake", "lineage.record", "corpus.contamination",
    "engine.cuts", "publish.export_flat",
)  # fmt: skip
# The lake's SQL reads snapshots; snapshots are written through the lake's storage.
ALLOWED = {("lake/sql.py", "snapshot"), ("lake/at.py", "snapshot"), ("lake/runs.py", "snapshot")}
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "misc"}


def modules(package: str) -> Iterator[Path]:
    yield from sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Dotted names that a file imports, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def place(dotted: str) -> str:
    return dotted.split(".")[1]


def test_dataplane_imports_point_up_the_list() -> None:
    wrong = []
    for path in modules("dataplane"):
        here = path.relative_to(ROOT / "dataplane")
        own = here.parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for dotted in imports(path):
            if not dotted.startswith("dataplane.") or place(dotted) not in ORDER or place(dotted) == own:
                continue
            if ORDER.index(place(dotted)) > ORDER.index(own) and (here.as_posix(), place(dotted)) not in ALLOWED:
                wrong.append(f"{here} imports {dotted}")
    assert wrong == []


def test_every_module_has_a_place_in_the_list() -> None:
    places = {path.relative_to(ROOT / "dataplane").parts[0].removesuffix(".py") for path in modules("dataplane")}
    assert places - {"__init__"} == set(ORDER)


def test_dataplane_never_imports_trainplane() -> None:
    assert [path.name for path in modules("dataplane") if any(name.split(".")[0] == "trainplane" for name in imports(path))] == []


def test_trainplane_imports_only_the_agreed_parts_of_dataplane() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules("trainplane")
        for name in imports(path)
        if name.startswith("dataplane.") and not name.removeprefix("dataplane.").startswith(TRAINPLANE_MAY_IMPORT)
    ]
    # `from dataplane.lineage import record` is seen as two names; the first alone says nothing.
    assert [line for line in wrong if not line.endswith("imports dataplane.lineage")] == []


@pytest.mark.parametrize("package", ["dataplane", "trainplane"])
def test_nobody_imports_a_stage(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(package)
        for name in imports(path)
        if name.startswith(("dataplane.stages", "trainplane.stages"))
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["dataplane", "trainplane"])
def test_packages_hold_no_catch_all_module_and_no_code_in_init(package: str) -> None:
    assert [path for path in modules(package) if path.stem in FORBIDDEN_NAMES or path.parent.name in FORBIDDEN_NAMES] == []
    inits = [path for path in modules(package) if path.name == "__init__.py" and path.parent.parent != ROOT]
    assert [path for path in inits if path.read_text(encoding="utf-8").strip()] == []


@pytest.mark.parametrize("package", ["dataplane", "trainplane"])
def test_importing_a_package_is_light(package: str) -> None:
    import subprocess
    import sys

    heavy = ("torch", "numba", "spacy", "trafilatura", "fasttext", "transformers", "duckdb", "lance")
    code = f"import sys, {package}.cli; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_the_repositorys_dvc_yaml_is_the_packaged_pipeline_over_the_sample() -> None:
    sample = Inputs(
        raw=["data/sample"],
        benchmarks=["data/sample/benchmark"],
        instructions=["data/sample/instruct"],
        preferences=["data/sample/preference"],
        sample=True,
    )
    assert yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8")) == dvc_yaml(sample)


def test_the_packaged_params_template_is_there() -> None:
    assert "$sources" in files("dataplane.template").joinpath("params.yaml").read_text(encoding="utf-8")
