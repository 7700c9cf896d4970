"""Page: what the reports for browsers share: their looks, their filter, and what they forbid.

The items of a page are elements of the class ``item``, each with ``data-verdicts`` (its words, with
commas between) and ``data-group``. A ``.holder`` without an item that is shown is hidden.
"""

import base64
import hashlib
from collections.abc import Iterable
from html import escape

from executor.visible import printable

STYLE = """
:root {
  color-scheme: light dark;
  --text: #1b1b1b; --paper: #fff; --faint: #f1f1f1; --line: #c9c9c9; --quiet: #555;
  --good: #11632a; --bad: #a11212; --open: #7a4b00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e8e8e8; --paper: #16181b; --faint: #23262b; --line: #474c54; --quiet: #b0b4ba;
    --good: #7ddc95; --bad: #ff9b9b; --open: #f3c56b;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 90rem; padding: 1rem;
  background: var(--paper); color: var(--text); font: 1rem/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.5rem; margin: 0; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.875rem; }
code { overflow-wrap: anywhere; }
pre {
  background: var(--faint); border: 1px solid var(--line); margin: 0.5rem 0; overflow-x: auto;
  padding: 0.5rem; white-space: pre-wrap; overflow-wrap: anywhere;
}
form { display: flex; flex-wrap: wrap; gap: 1rem; align-items: end; margin: 1rem 0; }
form label { display: grid; }
select, input { font: inherit; padding: 0.3rem; max-width: 100%; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--quiet); }
th, td {
  border-top: 1px solid var(--line); padding: 0.6rem; text-align: left; vertical-align: top;
}
thead th { border: 0; }
.family th { background: var(--faint); font-size: 1.125rem; }
.rule > * { width: 32%; }
.rule > td:last-child { width: 46%; }
p, dl, ul { margin: 0 0 0.4rem; }
dd { margin-left: 1rem; }
summary { cursor: pointer; padding: 0.25rem 0; }
.verdict { font-weight: bold; }
.passed { color: var(--good); }
.failed, .broken { color: var(--bad); }
.unsupported, .skipped { color: var(--open); }
.not-built, .not-run, .why { color: var(--quiet); }
.counts { display: flex; flex-wrap: wrap; gap: 0 1.5rem; list-style: none; padding: 0; }
[hidden] { display: none !important; }
@media (max-width: 50rem) {
  table, caption, tbody, tr, th, td { display: block; width: auto !important; }
  thead { position: absolute; clip-path: inset(50%); height: 1px; width: 1px; overflow: hidden; }
  .rule { border-top: 1px solid var(--line); }
  .rule > * { border: 0; padding: 0.3rem 0; }
}
"""


_SCRIPT = """
const form = document.getElementById("filter");
const items = [...document.querySelectorAll(".item")];
const texts = items.map((item) => item.textContent.toLowerCase());
function filter() {
  const { verdict, group, text } = form.elements;
  const words = text.value.toLowerCase().split(/\\s+/);
  let left = 0;
  items.forEach((item, index) => {
    item.hidden = !(
      (!verdict.value || item.dataset.verdicts.split(",").includes(verdict.value)) &&
      (!group.value || item.dataset.group === group.value) &&
      words.every((word) => texts[index].includes(word))
    );
    left += !item.hidden;
  });
  for (const holder of document.querySelectorAll(".holder"))
    holder.hidden = !holder.querySelector(".item:not([hidden])");
  document.getElementById("left").textContent = `${left} of ${items.length} ${form.dataset.items}`;
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
<h1>{heading}</h1>
<p>{title}</p>
<ul class="counts">
{counts}
</ul>
</header>
<main>
<form id="filter" role="search" data-items="{items}" hidden>
<label>Verdict <select name="verdict"><option value="">all</option>{words}</select></label>
<label>{group} <select name="group"><option value="">all</option>{groups}</select></label>
<label>Text <input name="text" type="search"></label>
<button type="reset">Show all</button>
<output id="left" aria-live="polite"></output>
</form>
{content}
</main>
<script>{script}</script>
</body>
</html>
"""


def page(
    heading: str,
    title: str,
    *,
    items: str,
    words: Iterable[str],
    group: str,
    groups: Iterable[str],
    counts: Iterable[str],
    content: Iterable[str],
    style: str = STYLE,
) -> str:
    """Give a page. All but ``counts`` and ``content``, which are HTML, is plain text.

    Args:
        items: what its items are called: ``rules``.
        words: the verdicts by which they can be chosen; ``groups`` what they belong to, which is
            called ``group``.
    """
    return _PAGE.format(
        policy=_policy(style, _SCRIPT),
        heading=text(heading),
        title=text(title),
        style=style,
        script=_SCRIPT,
        items=text(items),
        group=text(group),
        words="".join(map(_option, words)),
        groups="".join(map(_option, groups)),
        counts="\n".join(counts),
        content="\n".join(content),
    )


def text(value: str) -> str:
    """Write a text so that it is nothing but text, and all of it is seen."""
    return escape(printable(value, lines=True), quote=True)


def _option(value: str) -> str:
    return f"<option>{text(value)}</option>"


def _policy(style: str, script: str) -> str:
    """Allow this style, this script and no more."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
