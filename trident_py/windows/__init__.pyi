from trident_py.windows.join_store import JoinTimeOptions as JoinTimeOptions
from trident_py.windows.windows import EventTimeOptions as EventTimeOptions
from trident_py.windows.windows import SessionWindow as SessionWindow
from trident_py.windows.windows import SlidingCount as SlidingCount
from trident_py.windows.windows import SlidingDuration as SlidingDuration
from trident_py.windows.windows import TumblingCount as TumblingCount
from trident_py.windows.windows import TumblingDuration as TumblingDuration
