"""Rules of the package: imports point one way, and a snapshot has the public names."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import polars_rank as pr

# The columns of results, which have no public list.
from polars_rank.diagnostics.approximate_search import FIDELITY
from polars_rank.diagnostics.pipelines import STAGES
from polars_rank.stats.comparison import COMPARISON
from polars_rank.stats.leaderboards import LEADERBOARD
from polars_rank.stats.planning import POWER
from polars_rank.stats.summary import SUMMARY

PACKAGE = Path(pr.__file__).parent
SNAPSHOT = Path(__file__).parent / "public_names.txt"

#: The parts of the package, lowest first. A part imports from lower parts, and its strings name no
#: modules of higher ones; parts of one line may import from each other, but not in a cycle.
LAYERS = (
    ("errors",),
    ("_pages", "_params", "_polars", "_progress", "_texts"),
    ("checks", "gains", "discounts"),
    ("frames",),
    ("columns",),
    ("metrics",),
    ("conventions", "definitions", "terms"),
    ("evaluation",),
    ("io", "trec", "stats", "datasets"),
    ("diagnostics", "clicks", "integrations", "training"),
    ("catalog", "judges", "fusion"),
    ("conformance", "explanation", "gates"),
    ("plot",),
    ("reporting",),
    ("spark",),
    ("namespace", "cli"),
    ("__init__", "__main__", "conftest"),
)
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}
PUBLIC = (
    "catalog", "clicks", "conventions", "datasets", "diagnostics", "discounts", "errors", "gains",
    "integrations", "integrations.ir_measures", "integrations.mlflow", "integrations.mteb",
    "integrations.sentence_transformers", "judges", "plot", "stats", "terms", "training", "trec",
)  # fmt: skip

#: Result columns by function; their names are as public as those of functions.
RESULTS = {
    "compare": COMPARISON, "diagnostics.fidelity": FIDELITY, "diagnostics.stages": STAGES,
    "leaderboard": LEADERBOARD, "power": POWER, "summarize": SUMMARY,
}  # fmt: skip

#: Lines of code per package, without docstrings, comments and blank lines: its budget, and what it
#: may have until it has reached the budget. "." is the modules beside the packages. A limit only
#: falls; a package may exceed its budget only in a change that lowers another by as much.
BUDGETS = {
    ".": (3_000, 2_897),
    "frames": (750, 774),
    "metrics": (4_100, 3_607),
    "evaluation": (2_500, 2_341),
    "io": (2_800, 3_685),
    "stats": (2_500, 2_439),
    "gates": (1_000, 1_289),
    "conformance": (1_900, 2_013),
    "diagnostics": (1_500, 1_709),
    "judges": (850, 849),
    "fusion": (950, 949),
    "catalog": (560, 493),
    "clicks": (380, 269),
    "plot": (1_400, 1_390),
    "reporting": (1_400, 1_272),
    "spark": (450, 429),
    "cli": (1_500, 1_378),
    "integrations": (300, 215),
}
TOTAL = 28_000

USER_EXTRAS = ("cli", "plot", "report", "spark", "stats")


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}


@cache
def imports() -> dict[str, set[str]]:
    """Return the modules of the package, and which of them each imports.

    Imports in functions count, and modules that a string names, as for `import_module`.
    """
    names = {path: ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in trees()}
    modules = {name.removesuffix(".__init__"): path for path, name in names.items()}
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        found[name] = set()
        for node in ast.walk(trees()[path]):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = re.findall(r"polars_rank\.[\w.]+", node.value)
            else:
                continue
            for each in names:
                if each.partition(".")[0] == "polars_rank":
                    inner = each.removeprefix("polars_rank").removeprefix(".")
                    while inner and inner not in modules:
                        inner = inner.rpartition(".")[0]
                    if inner or not isinstance(node, ast.Constant):
                        found[name].add(inner or "__init__")
    return found


def code_lines(path: Path) -> int:
    """Return the number of lines that are not blank, comments or of docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        line
        for node in ast.walk(trees()[path])
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    lines = enumerate(path.read_text(encoding="utf-8").split("\n"), 1)
    code = {number for number, line in lines if line.strip() and line.lstrip()[0] != "#"}
    return len(code - docstrings)


def test_packages_keep_their_budgets() -> None:
    sizes: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        of_package = parts[0].removesuffix(".py") if parts[0] == "clicks.py" else parts[0]
        sizes[of_package if len(parts) > 1 or of_package == "clicks" else "."] += code_lines(path)
    assert set(sizes) == set(BUDGETS)
    limits = {name: max(each) for name, each in BUDGETS.items()}
    assert {name: size for name, size in sizes.items() if size > limits[name]} == {}
    assert sizes.total() <= TOTAL


def test_each_package_that_is_imported_is_declared() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))[
        "project"
    ]
    extras = [project["optional-dependencies"][name] for name in USER_EXTRAS]
    declared = [each for each in sum(extras, project["dependencies"]) if "polars_rank[" not in each]
    names = {re.match(r"[\w-]+", each)[0].replace("-", "_") for each in declared}  # type: ignore[index]
    imported = {
        name.partition(".")[0]
        for path, tree in trees().items()
        if path.name != "conftest.py"
        for node in ast.walk(tree)
        for name in (
            [each.name for each in node.names] if isinstance(node, ast.Import)
            else [str(node.module)] if isinstance(node, ast.ImportFrom)
            else [str(node.args[0].value)]  # modules that are imported with their first attribute
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "_Module" else []
        )
    }  # fmt: skip
    other_names = {"vl_convert": "vl_convert_python"}
    imported = {other_names.get(name, name) for name in imported}
    assert imported - {*sys.stdlib_module_names, "polars_rank"} == names


def test_imports_point_one_way() -> None:
    above = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if HEIGHT[other.partition(".")[0]] > HEIGHT[module.partition(".")[0]]
    ]
    assert above == []


def test_no_modules_import_each_other() -> None:
    graph = {name: others - {name} for name, others in imports().items()}
    list(TopologicalSorter(graph).static_order())  # or CycleError


def described(module: ModuleType, prefix: str) -> list[str]:
    """Return a line for each public name: of a function with its signature."""
    lines = []
    for name in dir(module):
        value = getattr(module, name)
        if inspect.isroutine(value) and not name.startswith("_"):
            parameters = inspect.signature(value).parameters.values()
            written = [
                each.name if each.default is each.empty else f"{each.name}={_default(each.default)}"
                for each in parameters
            ]
            lines.append(f"{prefix}{name}({', '.join(written)})")
        else:
            lines.append(prefix + name)
    return lines


def _default(value: object) -> str:
    if isinstance(value, pr.Conventions):
        return value.name
    return getattr(value, "__name__", None) or repr(value)


def test_public_names_are_deliberate() -> None:
    """To accept a change, run the tests with POLARS_RANK_SNAPSHOT=1 and look at the difference."""
    lines = described(pr, "pr.")
    for name in PUBLIC:
        lines += described(import_module(f"polars_rank.{name}"), f"pr.{name}.")
    for name, columns in RESULTS.items():
        lines += [f"pr.{name}: {column.name} ({column.kind})" for column in columns]
    text = "\n".join(lines) + "\n"
    if os.environ.get("POLARS_RANK_SNAPSHOT"):
        SNAPSHOT.write_text(text, encoding="utf-8")
    assert text == SNAPSHOT.read_text(encoding="utf-8")


def test_public_modules_list_their_names_and_each_name_has_one_place() -> None:
    places: dict[int, list[str]] = {}
    for name in ("", *PUBLIC):
        module = import_module(f"polars_rank.{name}".rstrip("."))
        assert dir(module) == sorted([*module.__all__, *([] if name else ["__version__"])]), name
        for each in dir(module):
            value = getattr(module, each)
            assert not each.startswith("_") or each == "__version__", (name, each)
            if inspect.isroutine(value) or inspect.isclass(value):
                places.setdefault(id(value), []).append(f"{name}.{each}")
    assert [names for names in places.values() if len(names) > 1] == []


def test_names_are_imported_on_first_use() -> None:
    program = "import sys, polars_rank as pr\nprint(*sys.modules)\npr.evaluate\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    imported, evaluating = (
        {name.split(".")[1] for name in line.split() if name.startswith("polars_rank.")}
        for line in result.stdout.splitlines()
    )
    assert imported == {"frames"}
    others = {"catalog", "clicks", "diagnostics", "judges", "namespace", "plot", "reporting"}
    assert not evaluating & {*others, "io", "stats", "training"}
