"""Assemblies that come with the product, as they are declared."""

from __future__ import annotations

from typing import Any

import pytest

from trident_py.errors import TopologyError
from trident_py.operations.assemblies import FirstN


@pytest.mark.parametrize("arguments", [(0, "n"), (-1, "n"), ("3", "n"), (True, "n"), (3, 4)])
def test_b3_first_n_takes_a_number_and_a_field(arguments: Any) -> None:
    with pytest.raises(TopologyError, match="FirstN"):
        FirstN(*arguments)
    assert list(map(repr, [FirstN(3), FirstN(2, "n"), FirstN(1, "n", reverse=True)])) == [
        "FirstN(3)", "FirstN(2, 'n')", "FirstN(1, 'n', reverse=True)",
    ]  # fmt: skip
