"""Annotations: lines on stdout that CI services show beside the code."""

from collections.abc import Iterator

from executor.testing.mutation.reports.entries import Entry, Standing


def github(standing: Standing) -> Iterator[str]:
    """Give a workflow command for each mutant that did not end as it should.

    Source: https://docs.github.com/actions, "Workflow commands".
    """
    for entry in _wanting(standing):
        file, line = entry.place
        title = _escaped(f"mutant {entry.word}", more=True)
        text = _escaped(f"{entry.id} ({entry.rule}): {entry.why}\n{entry.patch}")
        yield f"::error file={_escaped(file, more=True)},line={line},title={title}::{text}"


def azure(standing: Standing) -> Iterator[str]:
    """Give a logging command of Azure Pipelines for each of them."""
    for entry in _wanting(standing):
        file, line = entry.place
        text = _escaped(f"mutant {entry.word}: {entry.id} ({entry.rule}): {entry.why}")
        name = _escaped(file, more=True).replace(";", "%3B").replace("]", "%5D")
        yield f"##vso[task.logissue type=error;sourcepath={name};linenumber={line}]{text}"


def service(environment: dict[str, str]) -> str | None:
    """Name the CI service that this runs on, if it is one that shows annotations."""
    if environment.get("GITHUB_ACTIONS") == "true":
        return "github"
    if environment.get("TF_BUILD") == "True":
        return "azure"
    return None


def _wanting(standing: Standing) -> Iterator[Entry]:
    return (one for one in standing.entries if not one.good)


def _escaped(text: str, *, more: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if more else text
