"""What keeps the project as it was meant: who imports whom and uses what, how long things get, what the README says."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import pytest
from attrs import frozen

N = TypeVar("N", bound=ast.AST)
ROOT = Path(__file__).parents[1]
PRODUCT = ("coordinators", "trident_py")
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 40
README_LINES_MAX = 200

ONE_DOOR = {
    "kazoo": {"coordinators.backends.zookeeper.session"},
    "tenacity": {"coordinators.backends.zookeeper.session", "trident_py.worker.async_map"},
    "psycopg": {
        "trident_py.states.sql.postgres_client",
    },
    "confluent_kafka": {
        "trident_py.cli.kafka_demo",
        "trident_py.sinks.kafka.token_topic",
        "trident_py.sinks.kafka.transactions",
        "trident_py.sinks.kafka.verdicts",
        "trident_py.spouts.kafka",
    },
    "nats": {"trident_py.spouts.nats"},
    "pika": {"trident_py.spouts.rabbitmq.consumer"},
    "redis": {"trident_py.spouts.redis", "trident_py.states.redis"},
    "opentelemetry": {"trident_py.telemetry.opentelemetry"},
    "prometheus_client": {"trident_py.telemetry.prometheus"},
    "starlette": {"trident_py.web"},
    "uvicorn": {"trident_py.web.connections", "trident_py.web.server"},
    "pymysql": {"trident_py.states.sql.mysql"},
    "deltalake": {
        "trident_py.sinks.delta.handle",
        "trident_py.sinks.delta.table",
        "trident_py.sinks.delta.staging",
        "trident_py.spouts.delta",
    },
    "pyiceberg": {"trident_py.sinks.iceberg"},
    "rich": {"trident_py.cli"},
    "argparse": {"trident_py.cli"},
}
"""The only modules, or packages with everything in them, that may import a library."""

SPARK_DOORS = {
    "trident_py.spark",
    "trident_py.engine.spark.spark_job",
    "trident_py.engine.spark.input_frames",
    "trident_py.engine.spark.shared_job",
    "trident_py.engine.spark.task_reports",
}
SESSIONS_AND_JOBS = {
    "Builder", "builder", "getOrCreate", "newSession", "getActiveSession", "createDataFrame", "addArtifacts", "addTag",
    "interruptTag", "addJobTag", "cancelJobsWithTag", "collect", "toPandas", "toArrow", "toLocalIterator",
    "foreachPartition", "localCheckpoint", "sparkContext",
}  # fmt: skip
"""Names of PySpark that make a session or run a job; those too common to tell (``count``, ``observe``) are left out."""

PRIVATE_SPARK = {"_jvm", "_jdf", "_jsc", "_sc", "_jsparkSession", "_jconf", "_gateway", "rdd"}
FORBIDDEN_IMPORTS = {"pickle", "marshal", "shelve", "yaml", "dill"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "print", "breakpoint", "input"}

EXPORTS = {
    "trident_py": """TridentTopology TridentConfig RetryPolicy TridentQuery Stream GroupedStream TridentState
        TridentCollector TransactionAttempt TopologyContext FailedException TridentError TopologyError ConfigError
        MetadataError FencedError CoordinationLost SpoutError StateError SinkError PoisonBatchError""",
    "trident_py.operations": """Count Sum Min Max Last FirstN FilterNull Equals Negate Debug MapGet SnapshotGet
        TupleCollectionGet Function Filter Aggregator CombinerAggregator ReducerAggregator MultiReducer
        GroupedMultiReducer Assembly""",
    "trident_py.spouts": """ITridentSpout ICommitterTridentSpout IBatchSpout BatchCoordinator Emitter CommitterEmitter
        Replay FixedBatchSpout FeederBatchSpout FeederCommitterBatchSpout FileSpout
        DataFrameSpout DeltaSpout""",
    "trident_py.states": """State StateFactory StateUpdater MapState Snapshottable MemoryMapState SQLiteState
        PostgresState MySQLState RedisState SQLQuery QueryFunction IBackingMap NonTransactionalMap TransactionalMap
        OpaqueMap OpaqueValue TransactionalValue""",
    "trident_py.sinks": """TransactionalSink SinkTransaction CommitToken TopologyKey DeltaSink FileSink
        ForeachBatchSink IcebergSink KafkaSink SQLSink""",
    "trident_py.testing": "LocalCoordination run_batches",
}
"""The names of api.md, where they are found besides in ``trident_py``."""


@frozen
class Module:
    """One source file."""

    name: str
    path: Path
    source: str

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.source)

    def is_in(self, packages: set[str]) -> bool:
        return any(self.name == package or self.name.startswith(f"{package}.") for package in packages)

    def imports(self) -> Iterator[str]:
        """Dotted names, whether imported at run time, for types only, or inside a function."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name} has a relative import"
                for alias in node.names:
                    submodule = f"{node.module}.{alias.name}"
                    yield submodule if submodule in modules(*PRODUCT) else node.module or ""


@cache
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def modules(*packages: str) -> dict[str, Module]:
    found = {}
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = Module(name, path, path.read_text(encoding="utf-8"))
    assert found
    return found


def of_product() -> list[Module]:
    return list(modules(*PRODUCT).values())


def nodes(module: Module, kind: type[N]) -> Iterator[N]:
    return (node for node in ast.walk(module.tree) if isinstance(node, kind))


# --- who imports whom -------------------------------------------------------------------------------------------------


def test_imports_point_down() -> None:
    """Examples → trident_py → coordinators → attrs."""
    outside = {"coordinators": {"attrs", "kazoo", "tenacity"}}
    for module in modules("coordinators", "trident_py", "examples").values():
        imported = {name.partition(".")[0] for name in module.imports()} - sys.stdlib_module_names
        match module.name.partition(".")[0]:
            case "coordinators":
                assert imported <= outside["coordinators"] | {"coordinators"}, module.name
            case "trident_py":
                assert not imported & {"examples", "tests", "benchmarks"}, module.name
            case _:
                assert not imported & {"coordinators", "tests", "benchmarks"}, module.name


def test_there_is_no_import_cycle() -> None:
    """Counting what is imported for types only, and inside functions."""
    known = modules(*PRODUCT)
    graph = {name: {imported for imported in module.imports() if imported in known} for name, module in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))


FLOORS = """
    cli testing conformance
    topology
    runtime web storm
    query
    wishing coordination
    history telemetry
    engine.wiring
    engine.threads engine.spark engine.monitoring
    engine.resident
    engine.rows
    engine.ports
    engine.plane
    streams planner
    graph
    participants
    windows
    spouts.redis spouts.nats spouts.rabbitmq spouts.http spouts.postgres
    states.redis spouts.delta spouts.sql spouts.kafka sinks.delta sinks.iceberg sinks.kafka
    sinks.tables
    operations states states.sql spouts spouts.files spouts.spool sinks sinks.files sinks.sql spark worker
    interfaces rows
    errors _lazy
    coordinators.script
    coordinators.driver
    coordinators.backends.zookeeper
    coordinators.backends
    coordinators.batches coordinators.takeover
    coordinators.status
    coordinators.protocol
    coordinators.record
    coordinators.values
"""
"""The folders of the product and the root modules of `trident_py`, top down; none imports from a floor above."""


def floors() -> dict[str, int]:
    return {room: number for number, floor in enumerate(FLOORS.split("\n")) for room in floor.split()}


def room(module: Module) -> str:
    """The folder of a module; a module at the root of `trident_py` stands for itself."""
    folder = module.name.rpartition(".")[0]
    return (module.name if folder == "trident_py" else folder).removeprefix("trident_py.")


def passages() -> dict[str, dict[str, str]]:
    """For each folder, the folders it imports from, with a module that does. Facades only hand on."""
    known = {name: module for name, module in modules(*PRODUCT).items() if module.path.name != "__init__.py"}
    found: dict[str, dict[str, str]] = {room(module): {} for module in known.values()}
    for name, module in known.items():
        for imported in module.imports():
            if imported in known and room(known[imported]) != room(module):
                found[room(module)][room(known[imported])] = f"{name} imports {imported}"
    return found


def test_folders_form_a_dag() -> None:
    try:
        TopologicalSorter(passages()).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))


def test_no_folder_imports_from_a_floor_above() -> None:
    floor = floors()
    assert set(passages()) == set(floor)
    for upper, below in passages().items():
        for lower, example in below.items():
            assert floor[lower] >= floor[upper], f"{example}: {lower} is above {upper}"


def test_the_library_imports_from_leaf_modules_never_from_a_facade() -> None:
    facades = {name for name, module in modules(*PRODUCT).items() if module.path.name == "__init__.py"}
    for module in of_product():
        if module.path.name != "__init__.py":
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ImportFrom) and node.module in facades:
                    leaves = {alias.name for alias in node.names if f"{node.module}.{alias.name}" in modules(*PRODUCT)}
                    assert leaves == {alias.name for alias in node.names}, f"{module.name}:{node.lineno}"


def test_each_library_has_one_door() -> None:
    users: dict[str, list[Module]] = {}
    for module in of_product():
        for library in {name.partition(".")[0] for name in module.imports()} & set(ONE_DOOR):
            users.setdefault(library, []).append(module)
    assert set(users) == set(ONE_DOOR), "a library of the table is imported nowhere"
    beside = [(name, each.name) for name, doors in ONE_DOOR.items() for each in users[name] if not each.is_in(doors)]
    assert beside == []


# --- who may use what -------------------------------------------------------------------------------------------------


def test_sessions_and_jobs_are_made_in_one_place() -> None:
    for module in of_product():
        if not module.is_in(SPARK_DOORS):
            used = {node.attr for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
            spark = used & SESSIONS_AND_JOBS if _uses_spark(module) else set()
            assert not spark, f"{module.name} uses {spark}; that belongs into {sorted(SPARK_DOORS)}"


def _uses_spark(module: Module) -> bool:
    return any(name.partition(".")[0] == "pyspark" for name in module.imports())


def test_nothing_private_of_spark_is_used() -> None:
    for module in modules(*PRODUCT, "examples", "benchmarks").values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute):
                assert node.attr not in PRIVATE_SPARK, f"{module.name}:{node.lineno} uses {node.attr}"
        for name in module.imports():
            private = name.startswith("pyspark.sql.pandas") or (name.startswith("pyspark") and "._" in name)
            assert not private, f"{module.name} imports {name}"


def test_nothing_dangerous_is_called() -> None:
    for module in of_product():
        assert not {name.partition(".")[0] for name in module.imports()} & FORBIDDEN_IMPORTS, module.name
        if module.is_in({"trident_py.cli"}):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in FORBIDDEN_CALLS, f"{module.name}:{node.lineno} calls {node.func.id}"


# --- how long things get ----------------------------------------------------------------------------------------------


def test_modules_and_functions_are_short() -> None:
    lengths = {module.name: len(module.source.splitlines()) for module in of_product()}
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES_MAX} == {}
    functions = {
        f"{module.name}.{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for module in of_product()
        for node in nodes(module, ast.FunctionDef)
    }
    assert {name: lines for name, lines in functions.items() if lines > FUNCTION_LINES_MAX} == {}


CLASS_LINES_MAX = 250
CLASS_FIELDS_MAX = 12
REASON = "# large: "
"""How the line begins, right above a class that is larger, which says why it is one class all the same."""


def test_classes_are_small_or_say_why_they_are_not() -> None:
    offenders = []
    for module in of_product():
        lines = module.source.splitlines()
        for node in nodes(module, ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            size, fields = (node.end_lineno or first) - node.lineno + 1, len(_fields_of(node))
            is_small = size <= CLASS_LINES_MAX and fields <= CLASS_FIELDS_MAX
            if not is_small and not lines[first - 2].startswith(REASON):
                offenders.append(f"{module.name}.{node.name}: {size} lines, {fields} fields, and no reason")
    assert offenders == []


def _fields_of(node: ast.ClassDef) -> set[str]:
    """What an instance keeps: the fields that are declared, and those that its methods set."""
    declared = {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if "ClassVar" not in ast.unparse(each.annotation)
    }
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    own = [
        each
        for method in methods
        for each in ast.walk(method)
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)
    ]
    return declared | {each.attr for each in own if isinstance(each.value, ast.Name) and each.value.id == "self"}


ROOT_MODULES_MAX = 8


def test_few_modules_are_at_the_root() -> None:
    root = [module.name for module in of_product() if module.path.parent == ROOT / "trident_py"]
    assert len(root) <= ROOT_MODULES_MAX, root


# --- who tests what ---------------------------------------------------------------------------------------------------

PURE = """
    coordinators.backends coordinators.batches coordinators.driver coordinators.protocol coordinators.record
    coordinators.script coordinators.status coordinators.takeover coordinators.values
    engine.monitoring engine.plane engine.ports engine.resident engine.rows engine.spark engine.threads engine.wiring
    graph history interfaces operations participants planner rows spouts spouts.files states streams
    telemetry web windows worker
"""
"""The folders in which each module that isn't a small helper has a test file of its own."""

HELPER_LINES_MAX = 60

WITH_SPARK = {
    "trident_py.engine.spark.spark_job",
    "trident_py.engine.spark.input_frames",
    "trident_py.engine.spark.shared_job",
    "trident_py.engine.spark.spark_engine",
    "trident_py.engine.spark.task_reports",
    "trident_py.engine.resident.resident_tasks",
    "trident_py.engine.resident.settings",
}
"""Those of them that run jobs: tests/integration shows what they do."""


def test_pure_modules_have_test_files() -> None:
    pure = [module for module in of_product() if room(module) in PURE.split() and module.name not in WITH_SPARK]
    large = [module for module in pure if len(module.source.splitlines()) > HELPER_LINES_MAX]
    expected = [_own_test(module) for module in large if _has_behaviour(module.tree)]
    assert [path for path in expected if not (ROOT / path).exists()] == []


def _own_test(module: Module) -> str:
    folder, _, name = module.name.rpartition(".")
    return f"tests/unit/{folder.replace('.', '/')}/test_{name}.py"


def _has_behaviour(tree: ast.Module) -> bool:
    """Tell whether there is anything to test: vocabulary and interfaces have none."""
    return any(not _is_empty(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _is_empty(function: ast.FunctionDef) -> bool:
    code = [each for each in function.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    match code:
        case [] | [ast.Pass()] | [ast.Raise()]:
            return True
        case [ast.Return(value=None | ast.Constant() | ast.Name() | ast.Attribute() | ast.Tuple(elts=[]))]:
            return True
    return False


# --- what can be imported ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("facade", EXPORTS)
def test_every_public_name_can_be_imported(facade: str) -> None:
    for name in EXPORTS[facade].split():
        assert hasattr(import_module(facade), name), f"{facade}.{name}"
        assert getattr(import_module("trident_py"), name) is getattr(import_module(facade), name)


@pytest.mark.parametrize("facade", EXPORTS)
def test_what_a_facade_lists_it_has_and_is_all_it_has(facade: str) -> None:
    module = import_module(facade)
    assert set(EXPORTS[facade].split()) <= set(module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))


def test_a_facade_says_which_name_it_lacks() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = import_module("trident_py").no_such_name


LIGHT = {
    "importing the package": "import trident_py",
    "the errors": "import trident_py; trident_py.TridentError",
    "trident script": "from trident_py.cli import main; assert main(['script', '/dev/null']) == 0",
}


@pytest.mark.parametrize("statement", LIGHT.values(), ids=list(LIGHT))
def test_what_needs_no_heavy_library_loads_none(statement: str) -> None:
    heavy = "{'kazoo', 'pyspark', 'pandas', 'pyarrow', 'rich', 'psycopg', 'deltalake', 'pyiceberg'}"
    code = f"import sys; {statement}; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == ""


# --- who answers for what ---------------------------------------------------------------------------------------------

QUESTIONS_MAX = 10


def test_a_node_answers_for_itself() -> None:
    """Whoever has to know what kind of operation a node has asks the operation, not for its class."""
    rooms = ("graph", "planner", "engine", "participants", "streams", "spark", "worker", "topology.py", "runtime.py")
    homes = _operations()
    asked = [
        f"{module.name}: {name}"
        for module in of_product()
        if module.path.relative_to(ROOT).parts[:2] in {("trident_py", room) for room in rooms}
        for name in _classes_asked_for(_parsed(module.source))
        if homes.get(name, module.name) != module.name
    ]
    assert len(asked) <= QUESTIONS_MAX, asked


def _operations() -> dict[str, str]:
    """Where each operation of the graph is defined, by its name."""
    classes = {
        node.name: (module.name, {base.id for base in node.bases if isinstance(base, ast.Name)})
        for module in of_product()
        if room(module) == "graph"
        for node in _parsed(module.source).body
        if isinstance(node, ast.ClassDef)
    }
    found = {"Operation"}
    while more := {name for name, (_, bases) in classes.items() if bases & found} - found:
        found |= more
    return {name: classes[name][0] for name in found - {"Operation"}}


def _classes_asked_for(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            yield from (each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name))
        elif isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
            yield node.cls.id


# --- what the README says ---------------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES_MAX


# --- docstrings -------------------------------------------------------------------------------------------------------

NO_VERBS = """
    A An The This That These Those It Its What Whether Which Who Whom Whose Where When How Why All Any Both Each Every
    Some Several Many More Most One Two No None Nothing Nobody Not Never Always Only Just Another Other Others As At By
    For From In Of On Up With Behind Such Here There Until While After Before If
"""
"""Words that no docstring of a function begins with."""

NOT_YET: set[str] = set()
"""Where docstrings are still to be gone through."""


def test_the_docstrings_of_functions_begin_with_a_verb() -> None:
    """As in "Return …"; a property is a thing, and its docstring may begin with a noun."""
    summaries = {
        f"{module.name}.{node.name}": text.splitlines()[0]
        for module in of_product()
        if not module.is_in(NOT_YET)
        for node in nodes(module, ast.FunctionDef)
        if (text := ast.get_docstring(node))
        if not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    }
    assert {name: text for name, text in summaries.items() if text.split()[0] in NO_VERBS.split()} == {}


@cache
def classes() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for module in of_product():
        for node in nodes(module, ast.ClassDef):
            found.setdefault(node.name, []).append(node)
    return found


def _says(node: ast.ClassDef, method: str) -> bool:
    """Tell whether ``node``, or a class that it is derived from, says what ``method`` does."""
    own = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == method]
    attributes = ast.get_docstring(node) or ""
    if any(ast.get_docstring(each) for each in own) or f" {method}: " in attributes:
        return True
    names = {each.id for base in node.bases for each in ast.walk(base) if isinstance(each, ast.Name)}
    return any(_says(base, method) for name in names for base in classes().get(name, []) if base is not node)


def test_the_methods_that_users_call_or_implement_are_documented() -> None:
    """In their class, or in a base of it."""
    public = {name for names in EXPORTS.values() for name in names.split()}
    offenders = [
        f"{node.name}.{method.name}"
        for name in sorted(public)
        for node in classes().get(name, [])
        for method in node.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
        if not _says(node, method.name)
    ]
    assert offenders == []
