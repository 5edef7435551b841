"""How a sample is taken: of this process, of its JVM by what Java tells of itself, of ZooKeeper."""

from __future__ import annotations

import ctypes
import gc
import re
import threading
from typing import Any

import psutil
import pyarrow as pa
from attrs import frozen
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from tests.soak.judgement import Sample

CLEANING_SECONDS = 0.3
CLEANINGS_MAX = 30
"""Spark removes in the background what belonged to objects that were collected."""

BLOCK = "org.apache.spark.storage.BlockInfo"


@frozen
class Histogram:
    """The objects in a JVM that are reachable, as ``jcmd GC.class_histogram`` prints them."""

    text: str

    def instances(self, name: str) -> int:
        """How many of them are of a class."""
        found = re.search(rf"^ *\d+: +(\d+) +\d+ +{re.escape(name)}(?: |$)", self.text, re.MULTILINE)
        return int(found[1]) if found else 0

    @property
    def total_bytes(self) -> int:
        """What they take together."""
        found = re.search(r"^Total +\d+ +(\d+)", self.text, re.MULTILINE)
        assert found, self.text
        return int(found[1])


@frozen
class Probe:
    """Looks at the driver, its JVM and its ZooKeeper.

    Attributes:
        gateway: from Python to the JVM.
        client: of the ZooKeeper.
        root: the znode under which topologies are.
        driver: this process.
        jvm: that of the JVM.
    """

    gateway: Any
    client: KazooClient
    root: str
    driver: psutil.Process
    jvm: psutil.Process

    @classmethod
    def of(cls, spark: SparkSession, client: KazooClient, root: str) -> Probe:
        """A probe of a session of this process, by a client that is connected."""
        gateway: Any = spark.sparkContext._gateway
        jvm = psutil.Process(gateway.jvm.ProcessHandle.current().pid())
        return cls(gateway, client, root, psutil.Process(), jvm)

    def sample(self, at: float) -> Sample:
        """Collect all garbage, give back what is free, and count what is left."""
        gc.collect()
        pa.default_memory_pool().release_unused()
        ctypes.CDLL(None).malloc_trim(0)  # a new thread's arena isn't growth of what is in use
        heap = self._heap()
        return Sample(
            at=at,
            objects=len(gc.get_objects()) + gc.get_freeze_count(),  # a driver's loop freezes older ones
            threads=self.driver.num_threads(),
            descriptors=self.driver.num_fds(),
            znodes=self._znodes(self.root),
            blocks=heap.instances(BLOCK),
            driver_bytes=self.driver.memory_info().rss,
            heap_bytes=heap.total_bytes,
            jvm_bytes=self.jvm.memory_info().rss,
            jvm_threads=self.jvm.num_threads(),
            jvm_descriptors=self.jvm.num_fds(),
        )

    def _heap(self) -> Histogram:
        """The JVM's objects, once collecting garbage gives back no more blocks."""
        never, before = threading.Event(), self.histogram()
        for _ in range(CLEANINGS_MAX):
            never.wait(CLEANING_SECONDS)
            after = self.histogram()
            if after.instances(BLOCK) == before.instances(BLOCK):
                break
            before = after
        return after

    def histogram(self) -> Histogram:
        """Have the JVM collect all garbage, and tell what is left; a runtime without ``jcmd`` does so too."""
        java = self.gateway.jvm
        server = java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
        # By way of the interface: Py4J looks at the class that implements it, which Java keeps to itself.
        methods = java.Class.forName("javax.management.MBeanServer").getMethods()
        invoke = next(method for method in methods if method.getName() == "invoke")
        given = [
            java.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand"),
            "gcClassHistogram",
            self._array(java.Object, [self._array(java.String, [])]),
            self._array(java.String, ["[Ljava.lang.String;"]),
        ]
        return Histogram(str(invoke.invoke(server, self._array(java.Object, given))))

    def _array(self, kind: Any, values: list[Any]) -> Any:
        array = self.gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    def _znodes(self, path: str) -> int:
        children: list[str] = self.client.get_children(path)
        return 1 + sum(self._znodes(f"{path}/{child}") for child in children)
