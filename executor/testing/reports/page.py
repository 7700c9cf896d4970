"""Page: what the reports for browsers share: their looks, and what they forbid themselves."""

import base64
import hashlib

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


def policy(style: str, script: str) -> str:
    """Give the content security policy of a page that has this style, this script and no more."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
