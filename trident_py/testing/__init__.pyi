from coordinators.local import LocalCoordination as LocalCoordination
from trident_py.testing.batches import run_batches as run_batches
