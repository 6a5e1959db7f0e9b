"""The laws of the house, read off the syntax of the source: which room may import which, and how large things get.

Imports inside functions count like all others.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from millpond.operators.registry import KINDS

SOURCE = Path(__file__).parent.parent / "src" / "millpond"

#: The rooms from the ground up: a room imports those before it, and itself.
ROOMS = (
    "support",
    "types",
    "functions",
    "windows",
    "progress",
    "tables",
    "language",
    "synopses",
    "relations",
    "adapt",
    "catalog",
    "manifests",
    "sources",
    "archive",
    "operators",
    "engine",
    "answers",
    "commands",
    "api",
    "client",
    "server",
    "testing",
    "cli",
)

#: Rooms within rooms, in the same order; what lies beside them may import them all.
INNER_ROOMS = {
    "language": (
        "builtins",
        "syntax",
        "render",
        "inference",
        "resolve",
        "conditions",
        "check",
        "rewrite",
        "plan",
        "with_options",
    ),
}

#: What the HTTP client may import beside itself, however far it leads.
CLIENT = ("support", "types")

MOST_FILES, MOST_LINES, MOST_PARAMETERS = 20, 60, 8

#: Numeric kernels: one loop each, whose parameters are arrays.
KERNELS = {
    "synopses.predicate_index.probe.walk",
    "synopses.predicate_index.probe.plan",
    "synopses.partners.finding._write",
    "synopses.partners.finding._stretches",
    "synopses.partners.finding._some",
    "synopses.partners.finding._count",
}

#: Who may name `Core`, all parts of an open pond at once: what puts them together. Everybody else takes what it needs.
ASSEMBLING = {
    "engine.core",
    "engine.control.epoch",
    "engine.control.gathering",
    "engine.control.loop",
    "commands.execution.interpreter",
    "commands.execution.performing",
    "commands.execution.sight",
    "api.pond",
    "api.handle",
    "api.registrations",
    "api.function_methods",
}

#: Rooms of the engine that take rows in and make epochs of them: answers are made without, from a `PondView`.
WRITING = ("engine.control", "engine.intake", "engine.jobs", "engine.spark", "engine.tasks")

#: What queries are, by class. Outside of operators and plans their readers ask them, or match them all.
QUERIES = {
    *("Answer", "StreamQuery", "Aggregation", "WindowAggregation", "WindowQuery", "RowWindowQuery", "SessionQuery"),
    *("GroupScan", "RowScan", "Relational", "RelationQuery", "PairsQuery", "RowQuery"),
    *("ScanQuery", "WindowedQuery", "RelationalQuery", "StandingQuery"),
}

#: Fields that are there with some kinds only: who asks whether they are would have asked for the kind.
OF_SOME = {"query", "relation", "row_window", "landmark", "join"}

#: The files of a kind of operator: the operator itself, its state in a shard, how state goes on with what came, answers
#: ahead of time, and the past. Every kind calls them the same.
STAGES = {"operator", "state", "advance", "early", "history"}


@cache
def modules() -> dict[str, ast.Module]:
    """The source by dotted name below `millpond`; packages by their folder's."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(file.read_text())
    return found


@cache
def imports() -> dict[str, frozenset[str]]:
    """The modules that each module imports, anywhere in it."""
    known, found = modules(), {}
    for name, tree in known.items():
        there: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "millpond":
                home = node.module.removeprefix("millpond").lstrip(".")
                for alias in node.names:
                    full = f"{home}.{alias.name}".lstrip(".")
                    there.add(full if full in known else home)
            elif isinstance(node, ast.Import):
                there |= {
                    a.name.removeprefix("millpond").lstrip(".")
                    for a in node.names
                    if a.name.split(".")[0] == "millpond"
                }
        found[name] = frozenset(there - {name})
    return found


def room(module: str) -> str:
    """The room that a module lies in."""
    return module.split(".")[0]


def inner_room(module: str) -> int:
    """The rank of a module within its room."""
    inner, place = INNER_ROOMS.get(room(module), ()), module.split(".")[1:2]
    return inner.index(place[0]) if place and place[0] in inner else len(inner)


def backward() -> set[str]:
    """Imports that go up."""
    rank = {r: n for n, r in enumerate(ROOMS)}
    return {
        f"{module} -> {target}"
        for module, targets in imports().items()
        for target in targets
        if module not in ("", "__main__")
        and (rank[room(module)], inner_room(module)) < (rank[room(target) or "api"], inner_room(target))
        and (rank[room(module)] < rank[room(target) or "api"] or room(module) == room(target))
    }


def circles() -> set[str]:
    """Groups of modules that import each other, each as its sorted names."""
    edges, index, low, found = imports(), {}, {}, set()
    stack: list[str] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in edges.get(node, ()):
            if target not in index:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.add(" ".join(sorted(stack[at:])))
            del stack[at:]

    for module in edges:
        if module not in index:
            visit(module)
    return found


def folders() -> dict[str, int]:
    """How many modules lie in each folder, without its `__init__`."""
    files = [f for f in SOURCE.rglob("*.py") if f.name != "__init__.py"]
    return Counter(".".join(f.parent.relative_to(SOURCE).parts) for f in files)


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function and method with its dotted name."""

    def inside(prefix: str, node: ast.AST) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}.{child.name}", child
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            yield from inside(f"{prefix}.{child.name}" if named else prefix, child)  # type: ignore[attr-defined]

    for name, tree in modules().items():
        yield from inside(name, tree)


def long_functions() -> set[str]:
    """Functions of more lines than a reader can hold."""
    return {n for n, f in functions() if f.end_lineno - f.lineno + 1 > MOST_LINES} - KERNELS  # type: ignore[operator]


def many_parameters() -> set[str]:
    """Functions of more parameters than a caller can remember."""

    def count(arguments: ast.arguments) -> int:
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        return len([a for a in named if a.arg not in ("self", "cls")])

    return {n for n, f in functions() if count(f.args) > MOST_PARAMETERS} - KERNELS


def same_names() -> set[str]:
    """Names that modules of several folders have, and that are no stage."""
    homes = defaultdict(set)
    for module in modules():
        folder, _, name = module.rpartition(".")
        homes[name].add(folder)
    return {name for name, where in homes.items() if len(where) > 1} - STAGES


def client_imports() -> set[str]:
    """What the client imports beside `CLIENT` and itself: as imports go down, nothing else comes with these."""
    return {
        f"{module} -> {target}"
        for module, targets in imports().items()
        for target in targets
        if room(module) == "client" and room(target) not in (*CLIENT, "client")
    }


def test_nothing_but_packages_lies_at_the_top() -> None:
    assert {f.name for f in SOURCE.glob("*.py")} == {"__init__.py", "__main__.py"}
    assert {f.name for f in SOURCE.iterdir() if f.is_dir() and f.name != "__pycache__"} == set(ROOMS)


def test_every_folder_says_what_lives_there() -> None:
    silent = [n for n, t in modules().items() if _is_package(n) and not ast.get_docstring(t)]
    assert not silent


def _is_package(name: str) -> bool:
    return (SOURCE.joinpath(*name.split(".")) / "__init__.py").exists()


def test_imports_go_down_only() -> None:
    assert not backward()


def test_operators_do_not_import_each_other() -> None:
    kinds = {f"operators.{kind.__module__.split('.')[2]}" for kind in KINDS}
    found = {
        f"{module} -> {target}"
        for module, targets in imports().items()
        for target in targets
        if (mine := _kind_of(module, kinds)) and (theirs := _kind_of(target, kinds)) and mine != theirs
    }
    assert not found


def _kind_of(module: str, kinds: set[str]) -> str:
    return next((k for k in kinds if module == k or module.startswith(f"{k}.")), "")


def test_there_are_no_circles() -> None:
    assert not circles()


def test_the_client_imports_little() -> None:
    assert not client_imports()


def test_what_a_client_loads() -> None:
    """A process that only asks a server needs neither the engine nor what it is made of."""
    script = "import sys, millpond.client.remote_pond; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    rooms = {name.split(".")[1] for name in loaded if name.startswith("millpond.")}
    assert rooms == {*CLIENT, "client"}
    assert not {"duckdb", "pyspark", "sqlglot", "starlette", "deltalake"} & set(loaded)


def _outside_of_kinds() -> Iterator[tuple[str, ast.AST]]:
    """The syntax of what must not know of kinds, by module."""
    for name, tree in modules().items():
        if not name.startswith(("operators.", "language.plan.")):
            yield from ((name, node) for node in ast.walk(tree))


def test_queries_are_asked_and_not_looked_at() -> None:
    """A `match` is fine: mypy sees that it leaves no kind out."""
    found = {
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, node in _outside_of_kinds()
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass", "type")
        if QUERIES & {n.id for n in ast.walk(node.args[-1]) if isinstance(n, ast.Name)}
    }
    assert not found


def test_no_missing_field_says_what_something_is() -> None:
    found = {
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, node in _outside_of_kinds()
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot)
        if isinstance(node.left, ast.Attribute) and node.left.attr in OF_SOME
    }
    assert not found


def test_only_what_assembles_a_pond_names_all_of_it() -> None:
    """The list may get shorter, and not longer."""
    found = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id == "Core")
        or (isinstance(node, ast.ClassDef) and node.name == "Core")
    }
    assert found == ASSEMBLING


def test_answers_are_made_without_what_makes_epochs() -> None:
    """What SHOW and EXPLAIN tell of a running pond is told by what runs it."""
    answering = {n for n in modules() if room(n) == "answers" and not n.startswith("answers.describe")}
    found = {
        f"{module} -> {target}"
        for module in {*answering, "engine.pond_view"}
        for target in imports()[module]
        if target.startswith(WRITING)
    }
    assert answering and not found


def test_plans_are_pure() -> None:
    """What plans statements reads facts: no pond, no lock, no clock, no file, no chance."""
    impure = {"os", "time", "threading", "random", "uuid", "secrets", "tempfile", "pathlib", "shutil"}
    planning = {n for n in modules() if n.startswith("commands.") and not n.startswith("commands.execution")}
    found = {
        f"{module} -> {target}"
        for module in planning
        for target in [*imports()[module], *_outside(modules()[module])]
        if target in impure or target == "engine.core" or target.startswith("commands.execution")
    }
    assert planning and not found


def _outside(tree: ast.Module) -> set[str]:
    """The modules that a module imports from elsewhere."""
    found = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    return found | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_syntax_nodes_carry_nothing_loose() -> None:
    """What a node of a syntax tree is lies in its fields; where its token stands, sqlglot keeps in `meta`."""
    nodes = ((name, node) for name, tree in modules().items() for node in ast.walk(tree))
    found = {name for name, node in nodes if isinstance(node, ast.Attribute) and node.attr == "meta"}
    assert found == {"language.syntax.source_text"}


def test_folders_stay_small() -> None:
    assert not {f for f, n in folders().items() if n > MOST_FILES}


def test_functions_stay_short() -> None:
    assert not long_functions()


def test_functions_take_few_parameters() -> None:
    assert not many_parameters()


def test_a_modules_name_occurs_once() -> None:
    assert not same_names()
