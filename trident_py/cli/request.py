"""``trident request NAME FUNCTION ARGS``: ask whoever leads a topology, wherever that is."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from coordinators.coordination import Coordination
from coordinators.secret import Secret
from trident_py.cli.coordination import existing
from trident_py.cli.usage import UsageError, config_of
from trident_py.errors import RequestError
from trident_py.web.token import token_at

LOOK_AGAIN_SECONDS = 0.5
FINAL = (400, 401, 403, 404, 413, 421, 500)
"""What is answered so will be answered so again."""


def run(arguments: Namespace) -> int:
    """Print the rows of the answer, a line of JSON each; with ``--json`` also which transaction they are about."""
    if arguments.timeout <= 0:
        raise UsageError(f"--timeout is above 0, not {arguments.timeout:g}")
    config = config_of(arguments)
    token = token_at(config.state_dir)
    with existing(config) as coordination:
        answer = _answer(coordination, arguments, token)
    if arguments.json:
        print(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        for row in answer["rows"]:
            print(json.dumps(row, ensure_ascii=False))
    return 0


def _answer(coordination: Coordination, arguments: Namespace, token: Secret) -> dict[str, Any]:
    """Ask until somebody answers; a leader that ends meanwhile is replaced by the next.

    Raises:
        RequestError: nobody has in time, or the answer is that there is none.
    """
    name, until = arguments.name, time.monotonic() + arguments.timeout
    while True:
        leader = coordination.describe(name).leader
        if leader is None:
            why = f"nobody leads topology {name!r}"
        elif not leader.address:
            why = f"{leader} leads topology {name!r}, and answers no requests: it runs without --serve"
        else:
            try:
                return _asked(leader.address, arguments, token, max(1.0, until - time.monotonic()))
            except HTTPError as error:
                why = f"{leader.address} answers: {_said(error)}"
                if error.code in FINAL:
                    raise RequestError(why, topology=name) from error
            except (URLError, TimeoutError, ConnectionError) as error:
                why = f"{leader.address} can't be asked: {getattr(error, 'reason', error)}"
        if time.monotonic() + LOOK_AGAIN_SECONDS >= until:
            raise RequestError(f"no answer within {arguments.timeout:g} s; {why}", topology=name)
        time.sleep(LOOK_AGAIN_SECONDS)


def _asked(address: str, arguments: Namespace, token: Secret, seconds: float) -> dict[str, Any]:
    request = Request(  # noqa: S310 - the address is a leader's own, http or https
        f"{address}/drpc/{quote(arguments.function, safe='')}",
        data=arguments.args.encode(),
        headers={"Authorization": f"Bearer {token.reveal()}", "Content-Type": "text/plain; charset=utf-8"},
    )
    with urlopen(request, timeout=seconds) as response:  # noqa: S310
        told, rows = response.headers, json.load(response)
    epoch, txid = told["Trident-Epoch"], told["Trident-Txid"]
    return {"rows": rows, "epoch": int(epoch), "txid": None if txid is None else int(txid)}


def _said(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"
