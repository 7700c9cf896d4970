"""More manifests, by file name: as a mapping, `{from: PATH}` beside the spec, or `{text: ...}`.

A mapping and a file are given ``${out}`` as one more place to write, so that fakes can record; a
text is written as it stands.
"""

from pathlib import Path
from typing import Any

from executor import plain_yaml
from executor.testing.scene import Scene

Value = dict[str, dict[str, Any]]


def act(scene: Scene, value: Value) -> None:
    """Write them."""
    house = scene.house
    for name, given in value.items():
        if set(given) == {"text"}:
            (house.manifests / name).write_text(given["text"], encoding="utf-8")
        elif set(given) == {"from"}:
            path = Path(scene.case.file.path).parent / given["from"]
            house.write_manifest(name, plain_yaml.load(path.read_bytes()).value)
        else:
            house.write_manifest(name, given)
