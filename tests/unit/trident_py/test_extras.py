"""Every public name can be imported without the packages of the extras."""

from __future__ import annotations

import subprocess
import sys

EXTRAS = [
    "confluent_kafka",
    "deltalake",
    "duckdb",
    "fastavro",
    "nats",
    "obstore",
    "pika",
    "psycopg",
    "pyiceberg",
    "pymysql",
    "redis",
]

PROGRAM = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))
import trident_py
for name in trident_py.__all__:
    getattr(trident_py, name)
"""


def test_all_names_are_there_without_the_packages_of_extras() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *EXTRAS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
