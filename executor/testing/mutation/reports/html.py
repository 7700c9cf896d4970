"""HTML: what became of mutants, as one file for a browser. It needs no network and asks for none.

The source stands there with its mutants in place, each with its change, its verdict, and the tests
that killed it. Without JavaScript all of it is there to read; with it, it can be filtered.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from executor.testing.mutation.reports.entries import WORDS, Entry, Spot, Standing
from executor.testing.reports.page import STYLE, policy
from executor.visible import printable

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
_SCRIPT = """
const form = document.getElementById("filter");
const mutants = [...document.querySelectorAll(".mutant")];
const texts = mutants.map((one) => one.textContent.toLowerCase());
function filter() {
  const { verdict, file, text } = form.elements;
  const words = text.value.toLowerCase().split(/\\s+/);
  let left = 0;
  mutants.forEach((one, index) => {
    one.hidden = !(
      (!verdict.value || one.dataset.verdict === verdict.value) &&
      (!file.value || one.dataset.file === file.value) &&
      words.every((word) => texts[index].includes(word))
    );
    left += !one.hidden;
  });
  for (const section of document.querySelectorAll("section"))
    section.hidden = !section.querySelector(".mutant:not([hidden])");
  document.getElementById("left").textContent = `${left} of ${mutants.length} mutants`;
}
form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(filter));
form.hidden = false;
filter();
"""
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>Mutants</h1>
<p>{title}</p>
<ul class="counts">
{counts}
</ul>
</header>
<main>
<form id="filter" role="search" hidden>
<label>Verdict <select name="verdict"><option value="">all</option>{words}</select></label>
<label>File <select name="file"><option value="">all</option>{files}</select></label>
<label>Text <input name="text" type="search"></label>
<button type="reset">Show all</button>
<output id="left" aria-live="polite"></output>
</form>
{sections}
</main>
<script>{script}</script>
</body>
</html>
"""


def report(standing: Standing) -> bytes:
    """Give the page."""
    counted = Counter(one.word for one in standing.entries)
    words = [word for word in WORDS if counted[word]]
    title = f"{standing.title}: {len(standing.entries)} mutants in {standing.seconds:.0f} s"
    if standing.void:
        title = f"{standing.title}: the run means nothing: {standing.void}"
    page = _PAGE.format(
        policy=policy(_STYLE, _SCRIPT),
        title=_text(title),
        style=_STYLE,
        script=_SCRIPT,
        counts="\n".join(
            f'<li class="verdict {word}">{counted[word]} {word}</li>' for word in words
        ),
        words="".join(f"<option>{word}</option>" for word in words),
        files="".join(f"<option>{_text(name)}</option>" for name in standing.by_file()),
        sections="\n".join(_sections(standing)),
    )
    return page.encode()


def _sections(standing: Standing) -> Iterator[str]:
    for name, spots in standing.by_file().items():
        at_line: dict[int, list[tuple[Entry, Spot]]] = {}
        for entry, spot in spots:
            at_line.setdefault(spot.end[0], []).append((entry, spot))
        yield f'<section>\n<h2>{_text(name)}</h2>\n<ol class="source">'
        for number, line in enumerate(standing.texts[name].splitlines(), 1):
            mutants = "".join(_mutant(*one) for one in at_line.get(number, ()))
            yield f"<li><code>{_text(line)}</code>{mutants}</li>"
        yield "</ol>\n</section>"
    if lost := [one for one in standing.entries if not one.spots]:
        mutants = "".join(_mutant(one, None) for one in lost)
        yield f"<section>\n<h2>Edits that do not apply</h2>\n{mutants}\n</section>"


def _mutant(entry: Entry, spot: Spot | None) -> str:
    file = spot.file if spot else ""
    change = ""
    if spot is not None:
        change = (
            f"<p><del>{_text(spot.original, lines=True) or '&nbsp;'}</del> → "
            f"<ins>{_text(spot.replacement, lines=True) or '&nbsp;'}</ins></p>"
        )
    why = f"<p>{_text(entry.why, lines=True)}</p>" if entry.why else ""
    return (
        f'<details class="mutant{"" if entry.good else " bad"}" data-verdict="{entry.word}" '
        f'data-file="{_text(file)}"{"" if entry.good else " open"}>'
        f'<summary><span class="verdict {entry.word}">{entry.word}</span> '
        f"<code>{_text(entry.id)}</code> {_text(entry.rule)}</summary>"
        f"{change}{why}{_tests('Killed by', entry.killers)}"
        f"<pre>{_text(entry.patch, lines=True)}</pre></details>"
    )


def _tests(what: str, tests: Sequence[str]) -> str:
    if not tests:
        return ""
    shown = "".join(f"<li><code>{_text(one)}</code></li>" for one in tests[:_MOST_TESTS])
    more = f"<li>and {len(tests) - _MOST_TESTS} more</li>" if len(tests) > _MOST_TESTS else ""
    return f"<p>{what}:</p><ul>{shown}{more}</ul>"


def _text(text: str, *, lines: bool = False) -> str:
    """Escape a text; what cannot be seen is shown."""
    return escape(printable(text, lines=lines))
