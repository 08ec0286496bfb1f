"""The metrics that tests compare with the tool of each preset.

`python -m tests.conformance` writes compared.json from these tests.
"""

from __future__ import annotations

import json
from pathlib import Path

_FILE = Path(__file__).with_name("compared.json")
#: Names of metrics by the name of the preset.
COMPARED: dict[str, list[str]] = json.loads(_FILE.read_text("utf-8"))
