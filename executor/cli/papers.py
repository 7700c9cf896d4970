"""Papers: reports that are written into files. They are opened before anything runs."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from executor.cli.output import note, printable


@contextlib.contextmanager
def opened(wanted: Mapping[str, str | None]) -> Iterator[dict[str, Any]]:
    """Open the wanted reports, by their option; what an earlier run wrote is gone from then on."""
    paths = [os.path.realpath(path) for path in wanted.values() if path is not None]
    if len(set(paths)) < len(paths):
        raise click.UsageError("Two reports cannot be written into one file.")
    with contextlib.ExitStack() as papers:
        found = {}
        for option, path in wanted.items():
            if path is None:
                continue
            try:
                found[option] = papers.enter_context(open(path, "wb", buffering=0))
            except OSError as failed:
                said = f"{path!r} cannot be written: {failed.strerror}."
                raise click.BadParameter(said, param_hint=f"'{option}'") from None
        yield found


def write(papers: Mapping[str, Any], reports: Mapping[str, Callable[[], bytes]]) -> bool:
    """Write the reports whose files are open; say whether all of them were."""
    written = True
    for option, paper in papers.items():
        report = reports[option]()
        try:
            while report:
                report = report[paper.write(report) :]
        except OSError as failed:
            note(printable(f"{paper.name} could not be written: {failed.strerror}."))
            written = False
    return written
