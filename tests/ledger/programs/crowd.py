"""Crowd: many processes claim on one store at once, half of their actions the same.

Usage: crowd.py DIRECTORY PROCESSES CLAIMS   Prints for each process what came of its claims, once
all have ended; on the way none has closed, for a closed one's claims would be given up.
"""

import json
import os
import sys
from pathlib import Path

import trio

from executor.refusal import Refused
from tests.ledger.programs.stand import standing


async def claim_all(directory: Path, turn: int, most: int, go: int, end: int, tell: int) -> None:
    found: dict[str, str] = {}
    async with standing(directory) as stand:
        os.read(go, 1)  # closed for all at the same time
        for number in range(most):
            shared = number % 2 == 0
            name = f"shared-{number}" if shared else f"own-{turn}-{number}"
            fingerprint = f"fingerprint of {name}"
            try:
                await stand.claim(f"{name} by {turn}", fingerprint=fingerprint)
                found[name] = "won"
            except Refused as no:
                found[name] = no.code
            except BaseException as fault:  # what a caller must never see
                found[name] = repr(fault)
        os.write(tell, json.dumps(found).encode())
        os.close(tell)
        os.read(end, 1)


def main() -> None:
    directory, processes, most = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    go, end = os.pipe(), os.pipe()
    told = []
    for turn in range(processes):
        ours, theirs = os.pipe()
        if not os.fork():
            os.close(go[1])
            os.close(end[1])
            trio.run(claim_all, directory, turn, most, go[0], end[0], theirs)
            os._exit(0)
        os.close(theirs)
        told.append(ours)
    os.close(go[1])
    print(json.dumps([json.loads(os.fdopen(one, "rb").read()) for one in told]), flush=True)
    os.close(end[1])
    for _ in range(processes):
        os.wait()


main()
