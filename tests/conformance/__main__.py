"""``python -m tests.conformance``: writes the tables of docs/reference/storm.md, and says what is where."""

from __future__ import annotations

import sys
from collections import Counter

from tests.conformance.rows import DOCUMENT, rows, write

write()
for verdict, count in Counter(row.verdict.value for row in rows()).most_common():
    sys.stdout.write(f"{count:4} {verdict}\n")
sys.stdout.write(f"written to {DOCUMENT}\n")
