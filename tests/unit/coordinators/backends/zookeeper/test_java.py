"""Which Java will do, and what is said of one that won't."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinators.backends.zookeeper.java import find_java, look_for_java
from coordinators.values.errors import ConfigError


def java_that_says(answer: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    java = directory / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(directory))
    return str(java)


def test_a_java_that_is_new_enough_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = java_that_says('openjdk version "21.0.1" 2023-10-17', tmp_path, monkeypatch)
    assert find_java() == java
    assert look_for_java().found == f'version "21.0.1" ({java})'


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ('openjdk version "11.0.2" 2019-01-15', 'version "11.0.2"'),
        ('java version "1.8.0_392"', 'version "1.8.0_392"'),
        ("exec format error", "exec format error"),
        ("", "no answer"),
    ],
)
def test_a_java_that_is_too_old_or_broken_is_told_with_the_way_out(
    answer: str, found: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = java_that_says(answer, tmp_path, monkeypatch)
    with pytest.raises(ConfigError) as error:
        find_java()
    assert f"Java is {found} ({java}); ZooKeeper and Spark need one of at least 17" in str(error.value)
    assert "openjdk-17-jre-headless" in str(error.value)
    assert "`trident doctor`" in str(error.value)
