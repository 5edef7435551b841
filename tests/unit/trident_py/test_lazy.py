from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

FACADES = ["trident_py", *(f"trident_py.{section}" for section in ("operations", "spouts", "states", "sinks"))]


def typed_names(facade: str) -> dict[str, str]:
    """What type checkers read: each name and the module it is from."""
    tree = ast.parse(Path(str(import_module(facade).__file__)).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }


@pytest.mark.parametrize("facade", FACADES)
def test_what_is_imported_is_what_type_checkers_read(facade: str) -> None:
    module = import_module(facade)
    typed = typed_names(facade)
    assert sorted(module.__all__) == sorted(typed)
    for name, home in typed.items():
        assert getattr(module, name) is getattr(import_module(home), name)


def test_every_name_of_a_section_is_one_of_the_whole() -> None:
    whole = set(import_module("trident_py").__all__)
    assert all(set(import_module(section).__all__) <= whole for section in FACADES[1:])


def test_a_name_that_is_nowhere_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'trident_py\.spouts' has no attribute 'KafkaSpuot'"):
        _ = import_module("trident_py.spouts").KafkaSpuot
