from __future__ import annotations

import threading

import pytest

from tests.unit.trident_py.history.told import PROGRAM
from trident_py.engine.monitoring.listeners import Listeners
from trident_py.errors import ConfigError
from trident_py.interfaces.config import TridentConfig
from trident_py.web import serving
from trident_py.web.serving import served


def test_without_a_place_for_it_there_is_no_page() -> None:
    listeners = Listeners()
    with served("words", TridentConfig(), lambda: pytest.fail("nobody asks")) as page:
        assert page.address == ""
        assert page.listening(listeners) is listeners


def test_what_it_needs_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "NEEDED", ("starlette", "no_such_library"))
    with (
        pytest.raises(ConfigError, match=r"needs no_such_library, not installed: pip install 'trident-py\[serve\]'"),
        served("words", TridentConfig(serve="127.0.0.1:0"), lambda: PROGRAM),
    ):
        pass


def test_a_page_of_what_does_not_start_is_closed() -> None:
    with pytest.raises(ZeroDivisionError), served("no-start", TridentConfig(serve="127.0.0.1:0"), lambda: PROGRAM):
        raise ZeroDivisionError
    assert [each.name for each in threading.enumerate() if each.name.startswith("trident-no-start")] == []
