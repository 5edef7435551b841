from coordinators.local import LocalCoordination as LocalCoordination
from trident_py.testing.batches import run_batches as run_batches
from trident_py.testing.report import Report as Report
from trident_py.testing.report import Rule as Rule
from trident_py.testing.report import Violation as Violation
from trident_py.testing.sinks import check_sink as check_sink
from trident_py.testing.spouts import check_spout as check_spout
from trident_py.testing.states import check_state as check_state
