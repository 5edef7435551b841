"""Where the embedded server's jars are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinators.backends.zookeeper import embedded
from coordinators.backends.zookeeper.embedded import find_jars
from coordinators.values.errors import ConfigError


def test_under_spark_submit_whose_pyspark_is_in_a_zip_the_jars_are_those_of_spark_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Zipped:
        submodule_search_locations = (str(tmp_path / "python" / "lib" / "pyspark.zip" / "pyspark"),)

    monkeypatch.setattr(embedded, "find_spec", lambda _: Zipped)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with pytest.raises(ConfigError, match="no ZooKeeper among the jars"):
        find_jars()
    (tmp_path / "jars").mkdir()
    jar = tmp_path / "jars" / "zookeeper-3.9.5.jar"
    jar.touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert find_jars() == [str(jar)]
