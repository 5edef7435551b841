"""An archive of the classes that Spark's JVMs load: with it each starts in some half of the time.

    python -m tests.servers.class_archive     makes it, in the environment of this Python, where there is none: 45 s

The JVM maps the archive instead of reading, parsing and verifying 20 000 classes (class data sharing). One that doesn't
fit it, as with another Java, starts without.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

ARCHIVE = Path(sys.prefix, f"spark-{pyspark.__version__}.jsa")

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

TRAINING = """
from pyspark.sql import Observation, SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
seen, path = Observation(), {path!r}
rows = spark.range(10).select("id", F.concat(F.lit("w"), F.col("id") % 2).alias("word"), F.rand().alias("amount"))
mapped = rows.mapInArrow(lambda batches: batches, rows.schema).observe(seen, F.collect_list("word").alias("words"))
mapped.write.partitionBy("word").parquet(path)
read = spark.read.parquet(path).join(rows.select("id"), "id", "left").groupBy("word").agg(F.sum("amount"), F.max("id"))
read.cache().toArrow()
read.select(F.udf(str, useArrow=False)("word")).collect()
spark.createDataFrame(read.toArrow()).repartition(2).sort("word").collect()
arrays = spark.createDataFrame([(1, ["a"])], "n long, words array<string>")
arrays.selectExpr("explode(words)").write.json(path + ".json")
"""
"""What topologies have Spark do, for the classes that it takes."""


def quick() -> str:
    """Return options of a JVM of Spark that is to be there soon, by the archive where there is one."""
    archived = f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"  # of one that doesn't fit it would warn
    return f"{_QUICK} {archived}" if ARCHIVE.is_file() else _QUICK


def make() -> None:
    """Make it."""
    submit = Path(pyspark.__file__).with_name("bin") / "spark-submit"
    with TemporaryDirectory() as directory:
        made, program = Path(directory, "made"), Path(directory, "training.py")
        program.write_text(TRAINING.format(path=f"{directory}/rows"))
        environment = {
            **os.environ,
            "SPARK_SUBMIT_OPTS": f"{_QUICK} -XX:ArchiveClassesAtExit={made} -Xlog:disable",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        settings = ("spark.ui.enabled=false", "spark.sql.shuffle.partitions=2", "spark.log.level=ERROR")
        given = [word for setting in settings for word in ("--conf", setting)]
        command = [str(submit), "--master", "local[2]", "--driver-memory", "1g", *given, str(program)]
        subprocess.run(command, env=environment, cwd=directory, check=True)
        made.chmod(0o644)
        part = ARCHIVE.with_suffix(".part")
        part.write_bytes(made.read_bytes())
        part.replace(ARCHIVE)


if __name__ == "__main__" and not ARCHIVE.is_file():
    make()
