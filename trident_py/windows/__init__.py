"""Windows over a stream: the four kinds that `Stream.window` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trident_py._lazy import lazy

if TYPE_CHECKING:
    from trident_py.windows.windows import SlidingCount as SlidingCount
    from trident_py.windows.windows import SlidingDuration as SlidingDuration
    from trident_py.windows.windows import TumblingCount as TumblingCount
    from trident_py.windows.windows import TumblingDuration as TumblingDuration
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {"trident_py.windows.windows": ["SlidingCount", "SlidingDuration", "TumblingCount", "TumblingDuration"]},
    )
