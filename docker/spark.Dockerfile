# Spark whose Python workers can run trident_py: the image's own Python is 3.10, and workers need the driver's (3.11, if
# PYTHON names no other that Ubuntu has). The driver needs the same Spark: pip install pyspark==4.1.2
FROM apache/spark:4.1.2-scala2.13-java17-python3-ubuntu
ARG PYTHON=3.11
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends python${PYTHON} python${PYTHON}-venv \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE /src/
COPY coordinators /src/coordinators
COPY trident_py /src/trident_py
RUN python${PYTHON} -m venv /opt/trident && /opt/trident/bin/pip install --no-cache-dir /src pyspark==4.1.2
ENV PYSPARK_PYTHON=/opt/trident/bin/python
USER spark
