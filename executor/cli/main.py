"""Main: where the `executor` command starts, and where it ends.

It makes ready what everything else relies on before anything else is imported: three open
standard streams that can write any text, and an answer to Ctrl-C.
"""

import os
import sys
from typing import NoReturn

from executor.cli import signals


def main() -> NoReturn:
    """Run the command line and exit with its code; an error is told, without a traceback."""
    arguments = sys.argv[1:]
    signals.watch(as_json="--json" in arguments)
    _open_standard_streams()
    from executor.cli.commands import invoke

    sys.exit(invoke(arguments))


def _open_standard_streams() -> None:
    """Fill 0, 1 and 2 where they are closed: or a file of ours gets the number, and the output."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for good
        else:
            stream.reconfigure(errors="backslashreplace")
