"""Three programs around an executor, as short as they can be: trio, threads, asyncio.

They are examples first: each is a whole program that copies a file by the shipped `file.copy`.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio

from executor import AskedBy, Receipt, Refused, Request, open_blocking, open_executor


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, namespaced: None) -> None:
    """A current directory with a file to send and a directory to send it to."""
    monkeypatch.chdir(tmp_path)
    Path("outbox").mkdir()
    Path("outbox/invoice.txt").write_text("100 EUR\n")
    Path("archive").mkdir()


def copy_as(name: str) -> Request:
    return Request(
        tool="file.copy",
        asked_by=AskedBy(role="assistant"),
        parameters={"directory": str(Path("archive").absolute()), "name": name},
        files={"source": "outbox/invoice.txt"},
    )


def test_trio() -> None:
    """A refusal is an exception; everything else is a receipt with a status."""

    async def main() -> None:
        async with open_executor(state="state", roots=["outbox", "archive"]) as ex:
            receipt = await ex.run(copy_as("2026-11.txt"))
            print(receipt.status, receipt.result_id)

            try:
                await ex.run(copy_as("../outside.txt"))
            except Refused as no:
                print(no.rule, no.code, no.because, no.todo)

            with pytest.raises(Refused) as again:  # the answer was lost, so it is asked again
                await ex.run(copy_as("2026-11.txt"))

            assert receipt.status == "delivered"
            assert again.value.code == "DUPLICATE_DELIVERED"
            assert again.value.earlier is not None
            assert again.value.earlier.attempt == receipt.attempt

    trio.run(main)

    assert Path("archive/2026-11.txt").read_text() == "100 EUR\n"
    assert not Path("outside.txt").exists()


def test_threads() -> None:
    """One executor for all of a program's threads; leaving the block waits for what still runs."""
    names = [f"{number}.txt" for number in range(4)]

    with (
        open_blocking(state="state", roots=["outbox", "archive"]) as ex,
        ThreadPoolExecutor() as pool,
    ):
        receipts = list(pool.map(ex.run, map(copy_as, names)))

    assert [receipt.status for receipt in receipts] == ["delivered"] * 4
    assert sorted(path.name for path in Path("archive").iterdir()) == names


def test_asyncio() -> None:
    """The same, each run in a thread of asyncio's own."""

    async def main() -> list[Receipt]:
        with open_blocking(state="state", roots=["outbox", "archive"]) as ex:
            runs = (asyncio.to_thread(ex.run, copy_as(name)) for name in ("a.txt", "b.txt"))
            return await asyncio.gather(*runs)

    receipts = asyncio.run(main())

    assert [receipt.status for receipt in receipts] == ["delivered"] * 2
    assert sorted(path.name for path in Path("archive").iterdir()) == ["a.txt", "b.txt"]
