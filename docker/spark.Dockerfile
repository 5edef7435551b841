# Spark with a Python that has trident_py: one image for standalone workers, executors, and the process of `trident run`.
#
# The tests run Spark 4.3.0, and no image of apache/spark with that version is known: the newest in apache/spark-docker on
# 25 June 2026 is 4.1.2. So the image takes Java and the entry point for Kubernetes from 4.1.2, and Spark 4.3.0 from
# PySpark's own jars, which the tests use too. SPARK_HOME names them. No image was built from this file yet, because no
# Docker engine was available; tests/test_docker.py runs docker/install and uses the result with this environment.
#
# The driver and the workers need the same Python (3.11, or another that Ubuntu has, named by PYTHON) and the same Spark:
# for a driver outside of the image, pip install pyspark==4.3.0.
FROM apache/spark:4.1.2-scala2.13-java17-python3-ubuntu
ARG PYTHON=3.11
# the extras of pyproject.toml that topologies need
ARG EXTRAS=kafka,postgres
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends python${PYTHON} python${PYTHON}-venv \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE docker/install /src/
COPY coordinators /src/coordinators
COPY trident_py /src/trident_py
RUN PIP_NO_CACHE_DIR=1 PYTHON=python${PYTHON} /src/install /src /opt/trident "${EXTRAS}"
ENV PATH=/opt/trident/bin:$PATH PYSPARK_PYTHON=/opt/trident/bin/python SPARK_HOME=/opt/trident/spark
# standalone workers write here; their Spark's own directory belongs to root
ENV SPARK_WORKER_DIR=/opt/spark/work-dir
USER spark
