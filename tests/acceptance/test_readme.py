"""The README runs as it stands there, is short, and its links work on a package's page, too."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
WORDS_MAX = 900


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.zookeeper
def test_readme_example_prints_its_output(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    shell, *_ = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (output,) = re.findall(r"^<!-- printed -->\n```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "program.py").write_text(program)
    subprocess.run(["/bin/sh", "-euc", shell], cwd=tmp_path, check=True)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").split()) <= WORDS_MAX
