"""docker/kubernetes.yaml: read by Spark's own client of Kubernetes; its driver, before an API that starts nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from py4j.java_collections import JavaList
from py4j.java_gateway import JavaGateway, JavaObject
from pyspark.java_gateway import launch_gateway

from tests.servers.kubernetes import KubernetesApi, Request
from tests.topologies import TRIDENT
from trident_py.cli.usage import HISTORY, LOGIN

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

ROOT = Path(__file__).parents[3]
POD = "large-orders-1"
PATIENCE_SECONDS = 90


@frozen
class Manifest:
    """What docker/kubernetes.yaml says.

    Attributes:
        parts: what is declared, by kind.
        unknown: fields that Kubernetes doesn't have.
    """

    parts: Mapping[str, Any]
    unknown: list[str]

    @property
    def pod(self) -> Any:
        """What runs in each pod."""
        return self.parts["Deployment"]["spec"]["template"]["spec"]

    @property
    def driver(self) -> Any:
        """The container of `trident run`."""
        (container,) = self.pod["containers"]
        return container

    @property
    def settings(self) -> dict[str, str]:
        """What spark-defaults.conf says."""
        lines = self.parts["ConfigMap"]["data"]["spark-defaults.conf"].splitlines()
        return dict(line.split(None, 1) for line in lines)


@pytest.fixture(scope="module")
def manifest() -> Iterator[Manifest]:
    """The manifest as fabric8's client understands it, which Spark brings along."""
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    try:
        serialization = gateway.jvm.io.fabric8.kubernetes.client.utils.Serialization
        documents = (ROOT / "docker" / "kubernetes.yaml").read_text().split("\n---\n")
        found = [serialization.unmarshal(each) for each in documents]
        parts = [json.loads(serialization.asJson(each)) for each in found]
        assert len({part["kind"] for part in parts}) == len(parts)
        yield Manifest(
            {part["kind"]: part for part in parts}, [name for each in found for name in strange(each, gateway)]
        )
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(PATIENCE_SECONDS)


def strange(bean: Any, gateway: JavaGateway) -> Iterator[str]:
    """Give the fields of a document that its class has no name for."""
    about = gateway.jvm.java.beans.Introspector.getBeanInfo(bean.getClass())
    for described in about.getPropertyDescriptors():
        name, read = described.getName(), described.getReadMethod()
        if name == "additionalProperties":
            yield from read.invoke(bean, None)
        elif name != "class" and read is not None:
            value = read.invoke(bean, None)
            for each in value if isinstance(value, JavaList) else [value]:
                if isinstance(each, JavaObject) and each.getClass().getName().startswith("io.fabric8.kubernetes."):
                    yield from strange(each, gateway)


def test_kubernetes_knows_every_field(manifest: Manifest) -> None:
    assert manifest.unknown == []
    assert {*manifest.parts} == {"ServiceAccount", "Role", "RoleBinding", "Service", "ConfigMap", "Deployment"}


def test_the_parts_name_each_other(manifest: Manifest) -> None:
    parts, deployment = manifest.parts, manifest.parts["Deployment"]["spec"]
    account = parts["ServiceAccount"]["metadata"]
    assert manifest.pod["serviceAccountName"] == account["name"]
    assert parts["RoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert parts["RoleBinding"]["roleRef"]["name"] == parts["Role"]["metadata"]["name"]
    assert {part["metadata"]["namespace"] for part in parts.values()} == {
        manifest.settings["spark.kubernetes.namespace"]
    }
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels == parts["Service"]["spec"]["selector"]
    assert deployment["replicas"] == 2
    configured = [volume["configMap"] for volume in manifest.pod["volumes"] if "configMap" in volume]
    assert {each["name"] for each in configured} == {parts["ConfigMap"]["metadata"]["name"]}
    keys = {item["key"] for each in configured for item in each["items"]}
    assert keys == {*parts["ConfigMap"]["data"]}
    assert {volume["name"] for volume in manifest.pod["volumes"]} == {
        mount["name"] for mount in manifest.driver["volumeMounts"]
    }


def test_the_ports_are_those_that_spark_listens_on(manifest: Manifest) -> None:
    ports = {port["name"]: port["containerPort"] for port in manifest.driver["ports"]}
    settings = manifest.settings
    assert {name: str(port) for name, port in ports.items()} == {
        "driver": settings["spark.driver.port"],
        "blocks": settings["spark.driver.blockManager.port"],
        "ui": settings["spark.ui.port"],
    }
    assert {port["targetPort"]: port["port"] for port in manifest.parts["Service"]["spec"]["ports"]} == ports


def test_driver_and_executors_have_the_image_that_is_built_here(manifest: Manifest) -> None:
    image = manifest.driver["image"]
    assert manifest.settings["spark.kubernetes.container.image"] == image
    name = image.rpartition("/")[2]
    assert f"image: {name}" in (ROOT / "docker-compose.yml").read_text()
    assert name.rpartition(":")[2] in (ROOT / "docker" / "spark.Dockerfile").read_text()


def test_the_environment_is_what_the_driver_looks_at(manifest: Manifest) -> None:
    names = {variable["name"] for variable in manifest.driver["env"]}
    used = set(re.findall(r"\$\((\w+)\)", " ".join(manifest.driver["args"])))
    used |= set(re.findall(r"\$\{env:(\w+)\}", manifest.parts["ConfigMap"]["data"]["spark-defaults.conf"]))
    assert names == {*used, "SPARK_CONF_DIR", LOGIN, HISTORY}
    (place,) = (each["mountPath"] for each in manifest.driver["volumeMounts"] if each["name"] == "spark-conf")
    assert {"name": "SPARK_CONF_DIR", "value": place} in manifest.driver["env"]


@pytest.fixture
def mounted(manifest: Manifest, tmp_path: Path) -> Path:
    """The files of the ConfigMap, as they are mounted: links to links."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..data").symlink_to("..2026")
    for name, text in manifest.parts["ConfigMap"]["data"].items():
        (tmp_path / "..2026" / name).write_text(text)
        (tmp_path / name).symlink_to(f"..data/{name}")
    return tmp_path


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    api = KubernetesApi()
    api.start()
    with closing(api):
        yield api


def requests_of(manifest: Manifest, api: KubernetesApi, mounted: Path, zookeeper: str) -> list[Request]:
    """Run the driver until it has asked for its executors, end it, and return all that it has asked for."""
    here = {
        "/opt/topology": str(mounted),
        "k8s://https://kubernetes.default.svc:443": api.master,
        "$(POD_IP)": "127.0.0.1",
        "zookeeper:2181": zookeeper,
        "/var/lib/trident": str(mounted / "state"),
    }
    program, *words = manifest.driver["args"]
    assert program == "trident"
    for there, instead in here.items():
        assert there in " ".join(words), there
        words = [word.replace(there, instead) for word in words]
    environment = {**os.environ, "POD_NAME": POD, "SPARK_CONF_DIR": str(mounted), "PYSPARK_PYTHON": sys.executable}
    seen: list[Request] = []
    with (mounted / "log").open("wb") as log:
        process = subprocess.Popen([*TRIDENT, *words], stdout=log, stderr=log, env=environment)
        try:
            while len(pods_of(seen)) < int(manifest.settings["spark.executor.instances"]):
                seen.append(api.requests.get(timeout=PATIENCE_SECONDS))
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
    while not api.requests.empty():
        seen.append(api.requests.get())
    return seen


def pods_of(requests: list[Request]) -> list[Mapping[str, Any]]:
    """Return the pods that were created."""
    return [each.body for each in requests if (each.verb, each.resource) == ("create", "pods")]


@pytest.mark.slow
def test_the_driver_asks_for_executors_that_find_it_and_end_with_it_and_for_nothing_it_may_not(
    manifest: Manifest, api: KubernetesApi, mounted: Path, zookeeper: str
) -> None:
    requests = requests_of(manifest, api, mounted, zookeeper)
    for pod in pods_of(requests):
        (executor,) = pod["spec"]["containers"]
        environment = {variable["name"]: variable.get("value") for variable in executor["env"]}
        assert executor["image"] == manifest.driver["image"]
        assert "@127.0.0.1:" in environment["SPARK_DRIVER_URL"]
        assert [owner["name"] for owner in pod["metadata"]["ownerReferences"]] == [POD]
    (rule,) = manifest.parts["Role"]["rules"]
    assert {request.resource for request in requests} <= {*rule["resources"]}
    assert {request.verb for request in requests} <= {*rule["verbs"]}
    assert {request.namespace for request in requests} == {manifest.settings["spark.kubernetes.namespace"]}
