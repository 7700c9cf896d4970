"""What the command says is kept up to a limit and drained beyond it, and nothing holds us up."""

from typing import Any

import psutil
import pytest

from tests.house import House
from tests.spawning.runs import no_sandbox, writable

CAP = 2**20
FLOOD = 3200 * 65536


# rule: spawning.output-bounded
@pytest.mark.parametrize("order", [("stdout", "stderr"), ("stderr", "stdout")])
async def test_output_bounded_is_drained_to_its_end_whichever_comes_first(
    house: House, options: dict[str, Any], order: tuple[str, str]
) -> None:
    """Case 04: a reader that stops at its cap blocks the writer, who is then called late."""
    out = writable(house, limits={"output": "1 MiB", "deadline": "30 s"})
    counts = {"stdout": FLOOD, "stderr": 300_000}
    plan = {
        "print": [[name, {"repeat": name[-1], "bytes": counts[name]}] for name in order],
        "done": str(out / "done"),
    }
    async with house.open(**options) as executor:
        await executor.run(house.request({}))
        before = psutil.Process().memory_info().rss

        receipt = await executor.run(house.request(plan))

        grown = psutil.Process().memory_info().rss - before
    assert receipt.status == "delivered"
    assert (out / "done").exists()
    assert receipt.finished is not None
    stdout, stderr = receipt.finished.stdout, receipt.finished.stderr
    assert (len(stdout.kept), stdout.total, stdout.truncated) == (CAP, FLOOD, True)
    assert (len(stderr.kept), stderr.total, stderr.truncated) == (300_000, 300_000, False)
    assert set(stdout.kept) == {ord("t")}
    assert set(stderr.kept) == {ord("r")}
    assert receipt.result()["output"]["stdout"]["truncated"] is True
    assert receipt.result()["output"]["stdout"]["bytes"] == FLOOD
    assert grown < 20 * 2**20


# rule: spawning.output-bounded
@pytest.mark.parametrize("size", [CAP - 1, CAP, CAP + 1])
async def test_output_bounded_is_called_cut_only_when_it_was(
    house: House, namespaced: None, size: int
) -> None:
    """One byte at the limit decides whether a missing sign is doubt or proof."""
    house.manifest(limits={"output": "1 MiB"})

    receipt = await house.run({"stdout": {"repeat": "x", "bytes": size}})

    assert receipt.finished is not None
    output = receipt.finished.stdout
    assert (len(output.kept), output.total) == (min(size, CAP), size)
    assert output.truncated == (size > CAP)


# rule: spawning.output-bounded
async def test_output_bounded_to_nothing_still_counts(house: House, namespaced: None) -> None:
    """A limit of no bytes is a limit like any other."""
    house.manifest(limits={"output": "0 B"})

    receipt = await house.run({"stdout": {"repeat": "x", "bytes": 100_000}})

    assert receipt.finished is not None
    assert (receipt.finished.stdout.kept, receipt.finished.stdout.total) == (b"", 100_000)
    assert receipt.finished.stdout.truncated


# rule: spawning.output-bounded
async def test_output_bounded_holds_against_a_flood_without_end(
    house: House, options: dict[str, Any]
) -> None:
    """It ends at its deadline, and we have not swallowed it all."""
    house.manifest(limits={"deadline": "3 s", "grace": "100 ms", "output": "64 KiB"})

    receipt = await house.run({"then": "flood"}, **options)

    assert receipt.code == "TIMED_OUT"
    assert receipt.finished is not None
    assert len(receipt.finished.stdout.kept) == 65536
    assert receipt.finished.stdout.total > 65536


# rule: spawning.output-bounded
async def test_output_bounded_of_bytes_that_are_no_text_survives(
    house: House, options: dict[str, Any]
) -> None:
    """The bytes are evidence; what cannot be shown can still be kept."""
    house.manifest()

    receipt = await house.run({"then": "not-utf8"}, **options)

    assert receipt.finished is not None
    assert receipt.finished.stdout.kept == b"\xff\xfe\x80"
    assert receipt.finished.stdout.text.encode("utf-8", "surrogateescape") == b"\xff\xfe\x80"


# rule: spawning.output-bounded
async def test_output_bounded_ends_with_the_command_when_a_hidden_daemon_holds_the_pipe(
    house: House,
) -> None:
    """Without a sandbox one can hide from us, and must not hold us up for all that."""
    house.manifest()
    plan = {"stdout": "SENT\n", "then": {"daemon": 20, "daemon_clean_env": True}}

    receipt = await house.run(plan, **no_sandbox(house))

    assert receipt.status == "delivered"
    assert receipt.finished is not None
    assert receipt.finished.stdout.kept == b"SENT\n"
    assert receipt.finished.seconds < 15
    assert any("hides" in entry for entry in receipt.result()["isolation"]["missing"])


# rule: spawning.output-bounded
async def test_output_bounded_is_whole_when_the_command_stops_in_mid_line(
    house: House, options: dict[str, Any]
) -> None:
    """What was said last is often the reason."""
    house.manifest()

    for _ in range(5):
        receipt = await house.run({"stdout": "x" * 60_000 + "id=9", "then": {"exit": 0}}, **options)

        assert receipt.result_id == "9"
