"""HTML: what came of a run, as one file for a browser. It needs no network and asks for none.

Without JavaScript all of it is there to read; with it, it can be filtered. The page forbids itself
whatever it does not bring along, so that no text of a scenario could load or run anything.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from executor.testing.reports.page import page, text
from executor.testing.reports.standing import (
    NOT_BUILT,
    NOT_RUN,
    WORDS,
    Sources,
    Standing,
    count,
    standings,
)
from executor.testing.reports.values import shown
from executor.testing.verdicts import Failure, Outcome, Verdict

MOST = 10_000
"""Characters of a value that are shown."""
_TABLE = """\
<table role="table">
<caption>Each rule, what it promises, and the scenarios that try to break it. The control of a
scenario is the same with the one fact put right.</caption>
<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Rule</th>\
<th role="columnheader" scope="col">What it promises</th>\
<th role="columnheader" scope="col">Scenarios</th></tr></thead>"""


def report(outcome: Outcome) -> str:
    """Give the page."""
    rules = list(standings(outcome))
    words = [word for word in (*WORDS, NOT_RUN, NOT_BUILT) if any(word in _words(r) for r in rules)]
    title = (
        f"{count(len(outcome.verdicts), 'case')} against {outcome.target} "
        f"in {outcome.seconds:.1f} s"
    )
    return page(
        "Rules and scenarios",
        title,
        items="rules",
        words=words,
        group="Family",
        groups=dict.fromkeys(standing.family for standing in rules),
        counts=_counts(outcome, rules),
        content=(_TABLE, *_rows(rules), "</table>"),
    )


def _counts(outcome: Outcome, rules: Iterable[Standing]) -> Iterator[str]:
    for word in reversed(WORDS):
        if outcome.counts[word]:
            yield f"<li>{_verdict(word, f'{outcome.counts[word]} {word}')}</li>"
    standing_words = [standing.word for standing in rules]
    for word in (NOT_RUN, NOT_BUILT):
        if number := standing_words.count(word):
            said = f"{count(number, 'rule')} {word}"
            yield f"<li>{_verdict(word, said)}</li>"


def _rows(rules: Iterable[Standing]) -> Iterator[str]:
    sources = Sources()
    for family, members in groupby(rules, lambda standing: standing.family):
        yield '<tbody class="holder" role="rowgroup">'
        yield '<tr class="family" role="row">'
        yield f'<th role="rowheader" colspan="3" scope="rowgroup">{text(family)}</th></tr>'
        for standing in members:
            yield from _rule(standing, sources)
        yield "</tbody>"


def _rule(standing: Standing, sources: Sources) -> Iterator[str]:
    rule = standing.rule
    words = ",".join(sorted(_words(standing)))
    yield (
        f'<tr class="rule item" role="row" id="{text(rule.id)}" '
        f'data-group="{text(standing.family)}" data-verdicts="{text(words)}">'
    )
    yield f'<th role="rowheader" scope="row"><p><code>{text(rule.id)}</code></p>'
    yield f'<p>{_verdict(standing.word)}</p><p class="why">{text(standing.where)}</p></th>'
    yield f'<td role="cell"><p>{text(rule.statement)}</p><p class="why">{text(rule.why)}</p>'
    if rule.codes:
        yield f"<p>{' '.join(f'<code>{text(code)}</code>' for code in rule.codes)}</p>"
    yield '</td><td role="cell">'
    for _, cases in groupby(standing.verdicts, lambda verdict: verdict.case.scenario.id):
        yield from _scenario(list(cases), sources)
    yield "</td></tr>"


def _scenario(verdicts: list[Verdict], sources: Sources) -> Iterator[str]:
    case = verdicts[0].case
    wrong = any(verdict.word in ("failed", "broken") for verdict in verdicts)
    said = [f"{'control ' if one.case.control else ''}{_verdict(one.word)}" for one in verdicts]
    opened = " open" if wrong else ""
    yield f"<details{opened}><summary><code>{text(case.scenario.id)}</code> {', '.join(said)}"
    yield "</summary>"
    if case.scenario.why:
        yield f'<p class="why">{text(case.scenario.why)}</p>'
    for verdict in verdicts:
        yield from _wrong(verdict)
    first, lines = sources.scenario(case)
    if lines:
        yield f'<p class="why">{text(f"{case.file.path}:{first}")}</p>'
        yield f"<pre>{text(lines)}</pre>"
    yield "</details>"


def _wrong(verdict: Verdict) -> Iterator[str]:
    if verdict.failures or verdict.why:
        yield f"<p>{_verdict(verdict.word)} <code>{text(verdict.case.id)}</code></p>"
    if verdict.why:
        yield f"<pre>{text(verdict.why)}</pre>"
    if verdict.failures:
        yield f"<dl>{''.join(map(_failure, verdict.failures))}</dl>"
    if verdict.kept:
        yield f"<p>kept in <code>{text(verdict.kept)}</code></p>"


def _failure(failure: Failure) -> str:
    return (
        f"<dt>{text(failure.where)}: <code>{text(failure.key)}</code></dt>"
        f"<dd>expected <code>{text(shown(failure.expected, MOST))}</code></dd>"
        f"<dd>actual <code>{text(shown(failure.actual, MOST))}</code></dd>"
    )


def _words(standing: Standing) -> set[str]:
    return {standing.word, *(verdict.word for verdict in standing.verdicts)}


def _verdict(word: str, said: str = "") -> str:
    return f'<span class="verdict {word.replace(" ", "-")}">{said or word}</span>'
