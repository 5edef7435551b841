"""Each experiment stops somebody, where it says so."""

from __future__ import annotations

import pytest

from trident_py.conformance.experiments import every
from trident_py.conformance.play import Call


def test_a_focus_is_the_calls_of_its_methods_and_names_some() -> None:
    calls = [Call("recover"), Call("prepare"), Call("commit"), Call("prepare")]
    assert every("prepare", "recover")(calls) == [0, 1, 3]
    with pytest.raises(ValueError, match="stops nobody"):
        every()
