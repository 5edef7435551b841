"""Where a thread is in the code."""

from __future__ import annotations

import json
import threading

import pytest

from tests.unit.trident_py.resident import SECONDS
from trident_py.worker.places import place_of


def test_code_of_a_user_is_named_even_if_it_has_called_something_else() -> None:
    places: list[str] = []

    def note(_: object) -> str:
        places.append(place_of(threading.get_ident()))
        return ""

    json.dumps([object()], default=note)  # the frames of json are in between
    assert places[0].startswith(f"in note, {__file__}, line ")


@pytest.mark.parametrize("ended", [None, 0])
def test_nothing_is_said_of_a_thread_that_is_not_there(ended: int | None) -> None:
    assert place_of(ended) == ""


def test_a_thread_in_pythons_library_alone_has_no_place() -> None:
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait, args=[SECONDS], daemon=True)
    thread.start()
    assert place_of(thread.ident) == ""
    go_on.set()
    thread.join(SECONDS)
