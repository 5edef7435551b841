"""How the release at 230fe66 decides whether it can read a record: its words, from ``coordinators/record.py`` there."""

from __future__ import annotations

import json
from typing import Any

from coordinators.values.canonical import canonical_json, content_hash

RECORD_VERSION = 1


def verified(head: str) -> dict[str, Any]:
    """The body of a record's head; ``ValueError`` where that release raises `MetadataError`."""
    body = json.loads(head)
    if not isinstance(body, dict) or "version" not in body:
        raise ValueError("it is not a coordinator record")
    if body["version"] != RECORD_VERSION:
        raise ValueError(f"it has version {body['version']!r}, this release reads version {RECORD_VERSION}")
    crc = body.pop("crc", None)
    if crc != content_hash(canonical_json(body)):
        raise ValueError("its checksum does not match its content")
    if not isinstance(body.get("blobs"), dict):
        raise ValueError("it does not name its blobs")
    return body
