"""Plugin: spec files as pytest items, ``file.yaml::scenario`` and ``file.yaml::scenario[control]``.

pytest loads this in every run of everybody who has us installed, so that it imports nothing but
pytest before it has met a spec. A case for which this machine lacks something is skipped with the
reason; under ``CI`` it fails, because there nothing may be lacking.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from executor.testing.scene import Setting
    from executor.testing.spec import Case, SpecFile
    from executor.testing.verdicts import Verdict


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "SpecItems | None":
    """Take a YAML file that calls itself a spec."""
    if file_path.suffix not in (".yaml", ".yml"):
        return None
    from executor.testing.recognising import is_spec

    if not is_spec(file_path):
        return None
    collector: SpecItems = SpecItems.from_parent(parent, path=file_path)
    return collector


class Unmet(Exception):
    """A case that did not pass; its text says why, with the lines of the file."""


class SpecItems(pytest.File):
    """A spec file: every scenario of it, each followed by its control."""

    def collect(self) -> Iterator["CaseItem"]:
        """Read it.

        Raises:
            CollectError: with every problem of the file.
        """
        for case in self._read().cases():
            yield CaseItem.from_parent(self, name=case.id, case=case)

    def _read(self) -> "SpecFile":
        from executor.problems import Faulty
        from executor.testing.spec_reading import read_specs
        from executor.visible import printable

        try:
            [file] = read_specs([self.path])
        except Faulty as faulty:
            text = "\n".join(printable(str(problem)) for problem in faulty.problems)
            raise self.CollectError(text) from None
        return file


class CaseItem(pytest.Item):
    """A scenario, or its control."""

    obj = None
    """Plugins look for the function of a test without asking whether there is one."""

    def __init__(self, *, case: "Case", **known: Any) -> None:
        super().__init__(**known)
        self.case = case
        self.extra_keyword_matches.add(case.rule.id)

    def runtest(self) -> None:
        """Run it against the executor, with real processes."""
        verdict = self._run()
        if verdict.word == "passed":
            return
        import click

        from executor.testing.recognising import is_ci
        from executor.testing.reports.terminal import about

        if verdict.word == "skipped" and not is_ci(os.environ):
            pytest.skip(f"{self.case.where}: {verdict.why}")
        raise Unmet(click.unstyle("\n".join(about(verdict))))

    def _run(self) -> "Verdict":
        import trio

        from executor.testing.engine import run_case

        setting = self.config.stash.get(_SETTING, None) or _open(self.config)
        try:
            return trio.run(partial(run_case, setting, self.case))
        except BaseExceptionGroup as several:
            if several.subgroup(KeyboardInterrupt):  # in a group pytest would not know it
                raise KeyboardInterrupt from None
            raise

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Say what did not hold, and where it is written."""
        if isinstance(excinfo.value, Unmet):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Say where the scenario is written, in lines counted from zero."""
        line = self.case.file.document.mark(self.case.then_place[:4]).line
        return self.path, line - 1, f"{self.case.rule.id}: {self.name}"


_MUTANT = "EXECUTOR_MUTANT"
"""Set where a mutant is run; such a run shows by other ways that it finds faults."""
_SETTING: "pytest.StashKey[Setting]" = pytest.StashKey()


def _open(config: pytest.Config) -> "Setting":
    """Start the one process from which the targets of this session are forked.

    First the harness has to find out a target that lies; otherwise no verdict means anything.
    """
    import trio

    from executor.testing import planted
    from executor.testing.engine import make_setting
    from executor.testing.warm import Warm
    from executor.testing.workplaces import workplace

    stack = ExitStack()
    config.add_cleanup(stack.close)
    home = stack.enter_context(workplace("executor-cases-"))
    warm = stack.enter_context(Warm())
    if _MUTANT not in os.environ and (missed := trio.run(planted.missed)):
        pytest.exit(f"The harness did not find a planted fault: {missed}", returncode=70)
    config.stash[_SETTING] = trio.run(make_setting, home, warm)
    return config.stash[_SETTING]
