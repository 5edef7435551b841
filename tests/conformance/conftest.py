"""The Spark session of the integration tests, and their batches."""

from __future__ import annotations

from tests.integration.trident_py.conftest import short_backoff as short_backoff
from tests.integration.trident_py.conftest import spark as spark
from tests.integration.trident_py.test_streams import batch as batch
