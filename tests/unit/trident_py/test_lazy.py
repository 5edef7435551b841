from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

FACADES = [
    "trident_py",
    *(f"trident_py.{section}" for section in ("operations", "spouts", "states", "sinks", "testing", "windows")),
]


@pytest.mark.parametrize("facade", FACADES)
def test_what_the_stub_of_a_package_imports_is_there_and_re_exported(facade: str) -> None:
    module = import_module(facade)
    stub = ast.parse(Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [(node.module, alias) for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert len(imports) == len({(home, alias.name) for home, alias in imports}) > 0
    for home, alias in imports:
        assert home is not None
        if alias.name == "*":
            assert home in FACADES
            assert set(import_module(home).__all__) <= set(module.__all__)
        else:
            assert alias.asname == alias.name  # else type checkers take it for the stub's own
            assert getattr(module, alias.name) is getattr(import_module(home), alias.name)


def test_a_name_is_listed_once() -> None:
    assert all(len(set(module.__all__)) == len(module.__all__) for module in map(import_module, FACADES))


def test_a_name_that_is_nowhere_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'trident_py\.spouts' has no attribute 'KafkaSpuot'"):
        _ = import_module("trident_py.spouts").KafkaSpuot
