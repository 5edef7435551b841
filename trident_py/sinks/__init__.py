"""Where rows go in two phases: the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trident_py._lazy import lazy

if TYPE_CHECKING:
    from trident_py.interfaces.sinks import CommitToken as CommitToken
    from trident_py.interfaces.sinks import SinkTransaction as SinkTransaction
    from trident_py.interfaces.sinks import TopologyKey as TopologyKey
    from trident_py.interfaces.sinks import TransactionalSink as TransactionalSink
    from trident_py.interfaces.sinks import TransactionKey as TransactionKey
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "trident_py.interfaces.sinks": [
                "CommitToken",
                "SinkTransaction",
                "TopologyKey",
                "TransactionKey",
                "TransactionalSink",
            ],
        },
    )
