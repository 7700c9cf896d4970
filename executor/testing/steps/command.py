"""Call the `executor` command line in the house: `[doctor, --json]`.

The answer is the JSON object that it printed, or ``printed``, a list, where that is not one; with
its ``exit_code``, what else it said as ``stderr``, and ``status: ok`` where it exits with 0. The
options that say which house is meant are added, where it takes them.
"""

import json
import os
import subprocess
import sys
from typing import Any

import msgspec
import trio

from executor.testing.scene import Scene
from executor.testing.target import Broken, Unsupported

_MAIN = """import sys
from executor.testing.driver import believe_in_sqlite
believe_in_sqlite(sys.argv.pop(1))
from executor.cli.main import main
main()"""


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``words`` come after `executor`. ``opens``: it takes the options of an open executor, and not
    of a store alone. ``house``: it takes some of them."""

    words: list[str]
    opens: bool = True
    house: bool = True
    as_: str | None = msgspec.field(default=None, name="as")


async def act(scene: Scene, value: Value, name: str) -> None:
    """Call it."""
    if scene.setting.command is not None:
        raise Unsupported("a command line of the executor's own")
    house, environment = scene.house, dict(os.environ)
    if scene.environment is not None:
        environment = {"PATH": os.environ.get("PATH", os.defpath)} | scene.environment
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    options = ["--state", str(house.state)] if value.house else []
    if house.config.exists() and value.house:
        options += ["--config", str(house.config)]
    if value.opens and value.house:
        options += ["--root", str(house.root), "--manifest", str(house.manifests)]
        for directory in (house.bin, *house.interpreter_directories()):
            options += ["--trusted", str(directory)]
    words = [scene.notes.get("sqlite", ""), *scene.fill(value.words), *options]
    done = await trio.run_process(
        [sys.executable, "-c", _MAIN, *words],
        cwd=house.home,
        env=environment,
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    scene.told(name, _answer(done))


def _answer(done: "subprocess.CompletedProcess[bytes]") -> dict[str, Any]:
    try:
        printed = [json.loads(line) for line in done.stdout.splitlines()]
    except ValueError:
        try:
            printed = [json.loads(done.stdout)]
        except ValueError:
            raise Broken(f"no JSON: {done.stdout[-500:]!r}; {done.stderr[-2000:]!r}") from None
    answer = printed[0] if len(printed) == 1 else {"printed": printed}
    said = {"exit_code": done.returncode, "stderr": done.stderr.decode(errors="backslashreplace")}
    return answer | said | ({} if done.returncode else {"status": "ok"})
