# Spark with a Python that has trident_py: one image for standalone workers, executors, and the process of `trident run`.
# The image's own Python is 3.10; driver and workers need the same (3.11, if PYTHON names no other that Ubuntu has) and the
# same Spark: a driver that runs elsewhere has pip install pyspark==4.1.2
FROM apache/spark:4.1.2-scala2.13-java17-python3-ubuntu
ARG PYTHON=3.11
# those of pyproject.toml that topologies need
ARG EXTRAS=kafka,postgres
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends python${PYTHON} python${PYTHON}-venv \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE /src/
COPY coordinators /src/coordinators
COPY trident_py /src/trident_py
RUN python${PYTHON} -m venv /opt/trident && /opt/trident/bin/pip install --no-cache-dir "/src[${EXTRAS}]" pyspark==4.1.2
ENV PATH=/opt/trident/bin:$PATH PYSPARK_PYTHON=/opt/trident/bin/python
USER spark
