"""Under way: whatever happens around a run, its record is of what was asked and of how it ended."""

import subprocess
import sys

from tests.freezing.shelf import TOP
from tests.house import House

_INTERRUPTED_BEFORE_THE_RECORD = """
import signal, sys, trio
from executor import AskedBy, Request, open_executor
from executor.store.receipts import Receipts

put_on_record = Receipts.add

def interrupted(self, *given):
    signal.raise_signal(signal.SIGINT)
    put_on_record(self, *given)

async def main():
    async with open_executor(state=sys.argv[1], manifests=[sys.argv[2]], degraded=True) as executor:
        Receipts.add = interrupted
        await executor.run(Request(tool="test.true", asked_by=AskedBy(role="r")))
        await trio.sleep_forever()

try:
    trio.run(main)
except KeyboardInterrupt:
    print("interrupted")
"""
_TRUE = """
executor: manifest/1
tool: test.true
summary: Do nothing.
command: "true"
argv: []
capabilities: [{name: "compute:pure"}]
account: a
outcomes: [{when: {exit: 0}, is: delivered}]
"""


# rule: records.before-telling
def test_an_interrupt_between_the_end_and_its_record_waits_for_the_record(house: House) -> None:
    """The command had its effect; Ctrl-C at that moment must not make it unknown to everybody."""
    (house.manifests / "true.yaml").write_text(_TRUE)

    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_BEFORE_THE_RECORD, house.state, house.manifests],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == "interrupted\n", done.stderr
    assert len(list((house.state / "receipts").glob("*.json"))) == 1


# rule: records.receipt
async def test_a_request_that_is_changed_on_its_way_is_recorded_as_it_was_asked(
    house: House,
) -> None:
    """A caller's object is the caller's; what ran is what stood in it at the start."""
    house.manifest(files={"doc": {}})
    request = house.request({}, "asked", files={"doc": str(house.file("doc"))})

    def change(done: int, total: int) -> None:
        request.parameters["words"] = ["changed"]

    async with house.open(degraded=True) as executor:
        receipt = await executor.run(request, progress=change)

    assert request.parameters["words"] == ["changed"]
    assert receipt.request.parameters["words"] == ["asked"]
    assert receipt.action is not None
    assert receipt.action.argv[-1] == "asked"
