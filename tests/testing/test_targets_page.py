"""The page for other implementations: its target is run as it stands there."""

import re
import sys
from pathlib import Path

from executor.testing.engine import run_all
from executor.testing.spec_reading import read_specs

PAGE = (Path(__file__).parents[2] / "docs" / "targets.md").read_text()
SPEC = """\
executor: spec/1
family: page
rules:
  - id: page.sent-once
    statement: The same is sent once.
    why: It is enough.
    scenarios:
      - id: asked-twice
        steps: [{run: {as: first}}, {run: {as: again}}]
        then: {sent: 1}
        control:
          without: again
          then: {told: {status: delivered}, sent: 1, argv: [--, ana]}
      - id: held-meanwhile
        steps: [{run: {as: first, pause: verify}}, {resume: first}]
        then: {sent: 0}
        control:
          instead: {first: {run: {as: first, pause: claim}}}
          then: {told: {status: delivered}}
"""


# rule: proof.never-passed-unseen
async def test_the_target_of_the_page_passes_fails_and_is_unsupported_where_it_should(
    tmp_path: Path,
) -> None:
    """Whoever begins with it must learn the truth about it."""
    [program] = re.findall(r"<!-- file: my_target.py -->\n```python\n(.*?)```\n", PAGE, re.DOTALL)
    (tmp_path / "my_target.py").write_text(program)
    (tmp_path / "page.yaml").write_text(SPEC)
    target = [sys.executable, str(tmp_path / "my_target.py")]

    outcome = await run_all(read_specs([tmp_path / "page.yaml"]), target=target)

    assert [(one.case.id, one.word) for one in outcome.verdicts] == [
        ("asked-twice", "failed"),
        ("asked-twice[control]", "passed"),
        ("held-meanwhile", "unsupported"),
        ("held-meanwhile[control]", "unsupported"),
    ]
    [failure] = outcome.verdicts[0].failures
    assert (failure.key, failure.expected, failure.actual) == ("sent", 1, 2)
