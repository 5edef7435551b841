"""Sources of PySpark's Python Data Source API, made as Spark makes them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource

from trident_py.errors import TopologyError
from trident_py.rows.schema import shown


def data_source(source: type[DataSource] | str, options: Mapping[str, Any]) -> DataSource:
    """Make the data source of a class, or of ``"module:Class"``, with its options as text.

    Raises:
        TopologyError: there is no such class.
    """
    found = _found(source) if isinstance(source, str) else source
    if not (isinstance(found, type) and issubclass(found, DataSource)):
        raise TopologyError(f"a data source is a class that extends pyspark's DataSource, not {shown(source)}")
    made: DataSource = found(CaseInsensitiveDict({name: _text(value) for name, value in options.items()}))
    return made


def _found(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise TopologyError(f"there is no data source {name!r}, in the form 'module:Class': {error}") from error


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
