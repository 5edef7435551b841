from coordinators.backends.local import LocalCoordination as LocalCoordination
from trident_py.conformance.report import Report as Report
from trident_py.conformance.report import Rule as Rule
from trident_py.conformance.report import Violation as Violation
from trident_py.conformance.sinks import check_sink as check_sink
from trident_py.conformance.spouts import check_spout as check_spout
from trident_py.conformance.states import check_state as check_state
from trident_py.testing.batches import run_batches as run_batches
