"""HTML: what became of mutants, as one file for a browser. It needs no network and asks for none.

The source stands there with its mutants in place, each with its change, its verdict, and the tests
that killed it. Without JavaScript all of it is there to read; with it, it can be filtered.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from executor.testing.mutation.reports.entries import WORDS, Entry, Spot, Standing
from executor.testing.reports.page import STYLE, page, text

_MOST_TESTS = 50
_STYLE = (
    STYLE
    + """
h2 { font-size: 1.125rem; margin: 1.5rem 0 0.5rem; }
ol.source {
  background: var(--faint); border: 1px solid var(--line); font-family: ui-monospace, monospace;
  font-size: 0.875rem; margin: 0; overflow-x: auto; padding: 0.5rem 0.5rem 0.5rem 4rem;
}
ol.source > li > code { font-size: inherit; white-space: pre; }
ol.source > li::marker { color: var(--quiet); }
.mutant {
  background: var(--paper); border-left: 3px solid var(--line); font-family: system-ui, sans-serif;
  margin: 0.25rem 0; padding: 0 0.5rem;
}
.mutant.bad { border-color: var(--bad); }
.killed, .timeout { color: var(--good); }
.survived, .no-tests, .unstable, .invalid, .not-applied, .memory, .signal { color: var(--bad); }
.ignored { color: var(--quiet); }
del, ins { text-decoration: none; white-space: pre-wrap; }
del { color: var(--bad); } ins { color: var(--good); }
"""
)


def report(standing: Standing) -> bytes:
    """Give the page."""
    counted = Counter(one.word for one in standing.entries)
    words = [word for word in WORDS if counted[word]]
    title = f"{standing.title}: {len(standing.entries)} mutants in {standing.seconds:.0f} s"
    if standing.void:
        title = f"{standing.title}: the run means nothing: {standing.void}"
    return page(
        "Mutants",
        title,
        items="mutants",
        words=words,
        group="File",
        groups=standing.by_file(),
        counts=(f'<li class="verdict {word}">{counted[word]} {word}</li>' for word in words),
        content=_sections(standing),
        style=_STYLE,
    ).encode()


def _sections(standing: Standing) -> Iterator[str]:
    for name, spots in standing.by_file().items():
        at_line: dict[int, list[tuple[Entry, Spot]]] = {}
        for entry, spot in spots:
            at_line.setdefault(spot.end[0], []).append((entry, spot))
        yield f'<section class="holder">\n<h2>{text(name)}</h2>\n<ol class="source">'
        for number, line in enumerate(standing.texts[name].splitlines(), 1):
            mutants = "".join(_mutant(*one) for one in at_line.get(number, ()))
            yield f"<li><code>{text(line)}</code>{mutants}</li>"
        yield "</ol>\n</section>"
    if lost := [one for one in standing.entries if not one.spots]:
        mutants = "".join(_mutant(one, None) for one in lost)
        yield f'<section class="holder">\n<h2>Edits that do not apply</h2>\n{mutants}\n</section>'


def _mutant(entry: Entry, spot: Spot | None) -> str:
    file = spot.file if spot else ""
    change = ""
    if spot is not None:
        change = (
            f"<p><del>{text(spot.original) or '&nbsp;'}</del> → "
            f"<ins>{text(spot.replacement) or '&nbsp;'}</ins></p>"
        )
    why = f"<p>{text(entry.why)}</p>" if entry.why else ""
    return (
        f'<details class="mutant item{"" if entry.good else " bad"}" data-verdicts="{entry.word}" '
        f'data-group="{text(file)}"{"" if entry.good else " open"}>'
        f'<summary><span class="verdict {entry.word}">{entry.word}</span> '
        f"<code>{text(entry.id)}</code> {text(entry.rule)}</summary>"
        f"{change}{why}{_tests('Killed by', entry.killers)}"
        f"<pre>{text(entry.patch)}</pre></details>"
    )


def _tests(what: str, tests: Sequence[str]) -> str:
    if not tests:
        return ""
    shown = "".join(f"<li><code>{text(one)}</code></li>" for one in tests[:_MOST_TESTS])
    more = f"<li>and {len(tests) - _MOST_TESTS} more</li>" if len(tests) > _MOST_TESTS else ""
    return f"<p>{what}:</p><ul>{shown}{more}</ul>"
