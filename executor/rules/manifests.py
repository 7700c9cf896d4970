"""Manifests: does a manifest hold together? Every problem is told, with its place."""

import hashlib
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from executor import template
from executor.manifest import Condition, Extract, Manifest, Outcome, Parameter, Part, SetOf
from executor.plain_yaml import Document, Path
from executor.problems import Faulty, Problem, did_you_mean, problem_at, read
from executor.refusal import TABLE, Refused
from executor.rules import formats, freezing, outcomes, shells, values
from executor.template import Template

RESERVED_ENVIRONMENT = frozenset({"PATH", "HOME", "TMPDIR", "PWD"})
LOADER_ENVIRONMENT = re.compile(
    r"LD_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH|HOSTALIASES|OPENSSL_.*"
    r"|BASH_ENV|ENV|SHELL|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS4|IFS|CDPATH|ZDOTDIR|KSH_ENV"
    r"|PYTHON.*|PERL.*|RUBY(LIB|OPT)|GEM_(HOME|PATH)|BUNDLE_.*|NODE_(OPTIONS|PATH)|NPM_CONFIG_.*"
    r"|_?JAVA_.*|JDK_JAVA_OPTIONS|CLASSPATH|DOTNET_.*|CORECLR_.*|PHPRC|PHP_INI_SCAN_DIR|LUA_.*"
    r"|GIT_(SSH|SSH_COMMAND|EXEC_PATH|ASKPASS|PROXY_COMMAND|EXTERNAL_DIFF|EDITOR|SEQUENCE_EDITOR"
    r"|PAGER|CONFIG.*|TEMPLATE_DIR|DIR|COMMON_DIR|WORK_TREE|ALTERNATE_OBJECT_DIRECTORIES)"
    r"|SSH_ASKPASS|SUDO_ASKPASS|EDITOR|VISUAL|.*PAGER|BROWSER|LESS(OPEN|CLOSE)|MAKEFLAGS"
    r"|CURL_HOME|WGETRC|NETRC|XDG_CONFIG_.*|KUBECONFIG|DOCKER_CONFIG|PIP_.*|CARGO_.*|RUSTC?_WRAPPER"
)
"""Variables that make a command load or run something; no caller's value may reach them."""


IDEMPOTENCY_KEY = "idempotency_key"
_WORDS = {"item": "the item of an `each`", IDEMPOTENCY_KEY: "the key that a provider knows again"}
"""Names of placeholders, which no parameter can have."""
_APART = frozenset({"effect", "env", "isolation", "limits", "stage"})
"""What can be wrong in itself and leaves the rest to be judged: nothing else refers to it."""
_FITTING = {
    "string": {"format", "pattern", "min_length", "max_length"},
    "integer": {"minimum", "maximum", "exclusive_minimum", "exclusive_maximum", "multiple_of"},
    "number": {"minimum", "maximum", "exclusive_minimum", "exclusive_maximum", "multiple_of"},
    "boolean": set[str](),
    "array": {"items", "min_items", "max_items", "unique_items"},
}
"""What says something about a value of each type; elsewhere JSON Schema would pass it over."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A manifest that holds together, with the SHA-256 of its file's bytes and where it stood."""

    manifest: Manifest
    sha256: str
    file: str


def load(source: bytes, file: str, capabilities: Mapping[str, Any]) -> Tool:
    """Read one manifest.

    Args:
        source: the bytes of the file.
        file: its name, for messages.
        capabilities: the registry; any other capability is a problem.
    Raises:
        Faulty: with every problem found.
    """

    def check(manifest: Manifest, document: Document) -> Iterator[Problem]:
        return _Check(manifest, document, file, capabilities).run()

    manifest, _ = read(source, file, Manifest, check, apart=_APART)
    return Tool(manifest, hashlib.sha256(source).hexdigest(), file)


def preflight_of(manifest: Manifest) -> Manifest | None:
    """Give a tool's look-up as a tool of its own: the same, but it can write nowhere."""
    if (lookup := manifest.preflight) is None:
        return None
    return _side(manifest, lookup.command, lookup.argv, ())


def verify_of(manifest: Manifest) -> Manifest | None:
    """Give a tool's `verify` command as a tool of its own: without files, which may be gone."""
    if (verify := manifest.verify) is None:
        return None
    side = _side(manifest, verify.command, verify.argv, verify.outcomes)
    stage = {
        name: text
        for name, text in manifest.stage.items()
        if not any(one.startswith("files.") for one in _named(text))
    }
    return msgspec.structs.replace(side, files={}, stage=stage)


def _side(
    manifest: Manifest,
    command: str | None,
    argv: tuple[str | tuple[str, ...] | Part, ...],
    outcomes: tuple[Outcome, ...],
) -> Manifest:
    return msgspec.structs.replace(
        manifest,
        command=command or manifest.command,
        argv=argv,
        outcomes=outcomes,
        stdin=None,
        effect="immediate",
        isolation=msgspec.structs.replace(manifest.isolation, write=()),
        preflight=None,
        verify=None,
        reverse=None,
        revertible=False,
    )


def refusal(faulty: Faulty) -> Refused:
    """Turn the problems of a manifest into the refusal of the whole load."""
    count = len(faulty.problems)
    return Refused(
        "admission.closed-manifest",
        "INVALID_MANIFEST",
        because=f"{count} problem{'s' if count > 1 else ''} in a manifest:\n{faulty}\n",
        todo="Correct them; `executor manifest check FILE` shows what is left.",
    )


@dataclass(frozen=True)
class _Check:
    """One pass over one manifest; each method yields the problems of its part."""

    manifest: Manifest
    document: Document
    file: str
    capabilities: Mapping[str, Any]

    def run(self) -> Iterator[Problem]:
        yield from self._command()
        yield from self._parameters()
        yield from self._files()
        yield from self._stage()
        yield from self._stdin()
        yield from self._argv()
        yield from self._templates()
        yield from self._identity()
        yield from self._environment()
        yield from self._secrets()
        yield from self._capabilities()
        yield from self._outcomes()
        yield from self._limits()
        yield from self._reverse()
        yield from self._lookups()
        yield from self._idempotency()

    def _problem(self, path: Path, found: str, instead: str) -> Problem:
        return problem_at(self.document, self.file, path, found, instead)

    # -- the command ------------------------------------------------------------------------

    def _command(self, path: Path = ("command",)) -> Iterator[Problem]:
        command = self.manifest.command
        if "/" in command and not command.startswith("/"):
            yield self._problem(
                path, f"{command!r} is a relative path", "Write a name or an absolute path"
            )
        if reason := shells.indirection(command):
            yield self._problem(path, *reason)

    # -- parameters -------------------------------------------------------------------------

    def _parameters(self) -> Iterator[Problem]:
        for name, parameter in self.manifest.parameters.items():
            if name in _WORDS:
                yield self._problem(
                    ("parameters", name), f"{name!r} is the word for {_WORDS[name]}", "Rename"
                )
            yield from self._parameter(("parameters", name), parameter)
        for index, name in enumerate(self.manifest.required):
            if name not in self.manifest.parameters:
                yield self._problem(
                    ("required", index),
                    f"{name!r} is no parameter",
                    did_you_mean(name, self.manifest.parameters),
                )
            elif name in self.manifest.required[:index]:
                yield self._problem(("required", index), f"{name!r} stands twice", "Remove one")

    def _parameter(self, path: Path, parameter: Parameter) -> Iterator[Problem]:
        problems = list(self._schema(path, parameter))
        yield from problems
        if problems or _is_unset(parameter.default):
            return
        for fault in values.faults(parameter, parameter.default):
            yield self._problem(
                (*path, "default"), fault.removeprefix(": "), "Give a default that is valid"
            )
        for fault in values.line_faults(parameter, parameter.default):
            yield self._problem(
                (*path, "default"), fault.removeprefix(": "), "Say `multiline: true`, or remove it"
            )

    def _schema(self, path: Path, parameter: Parameter) -> Iterator[Problem]:
        """Check what a parameter says about its values."""
        kind = parameter.type
        for key in sorted(set().union(*_FITTING.values()) - _FITTING[kind]):
            if getattr(parameter, key) not in (None, False):
                word = _camel(key)
                yield self._problem(
                    (*path, word), f"{word} says nothing about type {kind}", "Remove it"
                )
        if kind == "array":
            yield from self._items(path, parameter.items)
        if parameter.pattern is not None:
            yield from self._regex((*path, "pattern"), parameter.pattern)
        for least, most in (
            ("min_length", "max_length"),
            ("min_items", "max_items"),
            ("minimum", "maximum"),
        ):
            low, high = getattr(parameter, least), getattr(parameter, most)
            if low is not None and high is not None and low > high:
                yield self._problem(
                    (*path, _camel(least)), f"{low} is more than {_camel(most)}", "Swap them"
                )
        for word, allowed in (("enum", parameter.enum or ()), ("const", (parameter.const,))):
            for value in allowed:
                if not _is_unset(value) and (fault := values.faults(_bare(parameter), value)):
                    yield self._problem((*path, word), fault[0].removeprefix(": "), "Correct it")

    def _items(self, path: Path, items: Parameter | None) -> Iterator[Problem]:
        if items is None:
            yield self._problem(path, "a list without `items`", "Say what its items are")
        elif items.type == "array":
            yield self._problem((*path, "items"), "a list of lists", "Use a list of scalars")
        else:
            yield from self._schema((*path, "items"), items)
            if not _is_unset(items.default):
                yield self._problem(
                    (*path, "items", "default"),
                    "no item is ever left out",
                    "Give the list itself a default",
                )

    # -- files ------------------------------------------------------------------------------

    def _files(self) -> Iterator[Problem]:
        names: dict[str, str] = {}
        for name, slot in self.manifest.files.items():
            path: Path = ("files", name, "name")
            if slot.name is None:
                continue
            if freezing.safe_name(slot.name) != slot.name:
                yield self._problem(
                    path,
                    f"{slot.name!r} is not a safe file name",
                    f"Write {freezing.safe_name(slot.name)!r}",
                )
            if slot.many:
                yield self._problem(path, "one name for many files", "Remove name or many")
            if slot.name.casefold() in names:
                yield self._problem(
                    path,
                    f"files.{names[slot.name.casefold()]} has the same name",
                    "Give it another one",
                )
            names[slot.name.casefold()] = name

    def _stage(self) -> Iterator[Problem]:
        taken: dict[str, str] = {}
        for key, text in self.manifest.stage.items():
            path: Path = ("stage", key)
            steps = key.removesuffix("/").split("/")
            if any(freezing.safe_name(step) != step for step in steps):
                yield self._problem(
                    path,
                    f"{key!r} is not a safe relative path",
                    "Use plain names separated by /, without leading dots or dashes",
                )
            if key.endswith("/") and text:
                yield self._problem(
                    path, "a directory with a text", 'Write "", or remove the last /'
                )
            folded = "/".join(steps).casefold()
            other = next(
                (
                    taken[one]
                    for one in taken
                    if one == folded
                    or (folded.startswith(one + "/") and not taken[one].endswith("/"))
                    or (one.startswith(folded + "/") and not key.endswith("/"))
                ),
                None,
            )
            if other is not None:
                yield self._problem(
                    path, f"{other!r} is in the same place", "Give one of them another name"
                )
            taken[folded] = key

    def _stdin(self) -> Iterator[Problem]:
        stdin = self.manifest.stdin
        if stdin is None:
            return
        if (stdin.file is None) == (stdin.text is None):
            yield self._problem(("stdin",), "not exactly one source", "Give `file` or `text`")
        if stdin.file is None:
            return
        if stdin.file not in self.manifest.files:
            yield self._problem(
                ("stdin", "file"),
                f"{stdin.file!r} is no file slot",
                did_you_mean(stdin.file, self.manifest.files),
            )
        elif self.manifest.files[stdin.file].many:
            yield self._problem(("stdin", "file"), "a slot of many files", "Name a single one")

    # -- templates --------------------------------------------------------------------------

    def _argv(self, start: Path = ("argv",)) -> Iterator[Problem]:
        for index, entry in enumerate(self.manifest.argv):
            path: Path = (*start, index)
            if isinstance(entry, str):
                yield from self._template(path, entry)
            elif isinstance(entry, tuple):
                for inner, text in enumerate(entry):
                    yield from self._template((*path, inner), text)
            else:
                yield from self._part(path, entry)

    def _part(self, path: Path, part: Part) -> Iterator[Problem]:
        if (part.each is None) == (part.when is None):
            yield self._problem(path, "not exactly one of `each` and `when`", "Give one of them")
            return
        word = "each" if part.each is not None else "when"
        name = part.each or part.when or ""
        if name not in self._names():
            yield self._problem(
                (*path, word), f"{name!r} is unknown", did_you_mean(name, self._names())
            )
            return
        if word == "each" and not self._is_list(name):
            yield self._problem((*path, word), f"{name!r} is not a list", "Use `when`")
        for inner, text in enumerate(part.argv):
            yield from self._template((*path, "argv", inner), text, item=word == "each", given=name)

    def _templates(self) -> Iterator[Problem]:
        manifest = self.manifest
        if manifest.account is not None:
            yield from self._template(("account",), manifest.account, files=False)
        for index, use in enumerate(manifest.capabilities):
            if use.targets is not None:
                yield from self._template(
                    ("capabilities", index, "targets"), use.targets, files=False, lists=True
                )
        isolation = manifest.isolation
        network = () if isolation.network == "host" else isolation.network
        for key, entries in (
            ("network", network),
            ("read", isolation.read),
            ("write", isolation.write),
        ):
            for index, text in enumerate(entries):
                yield from self._template(
                    ("isolation", key, index), text, files=False, optional=True
                )
        for index, text in enumerate(network):
            if _is_fixed(text) and formats.host_and_port(text) is None:
                yield self._problem(
                    ("isolation", "network", index),
                    f"{text!r} does not name a host and a port",
                    "Write host:port, or a URL with a port or a well-known scheme",
                )
        for key, text in manifest.stage.items():
            yield from self._template(("stage", key), text)
        if manifest.stdin is not None and manifest.stdin.text is not None:
            yield from self._template(("stdin", "text"), manifest.stdin.text)

    def _template(
        self,
        path: Path,
        text: str,
        *,
        item: bool = False,
        given: str | None = None,
        files: bool = True,
        lists: bool = False,
        optional: bool = False,
    ) -> Iterator[Problem]:
        """Check one template.

        Args:
            item: ``{item}`` has a meaning here.
            given: what a `when` or `each` around it makes sure of.
            files: references to staged files and secrets are possible here.
            lists: one reference may be a list, and gives one text for each item.
            optional: a reference may be absent; the text is then left out.
        """
        try:
            parsed = template.parse(text)
        except ValueError as bad:
            yield self._problem(path, str(bad), "Write {name}, and a brace itself as {{ or }}")
            return
        if lists and len(self._lists(parsed)) > 1:
            yield self._problem(
                path, "more than one list", "Write an entry of its own for each list"
            )
        for reference in template.references(parsed):
            name = str(reference)[1:-1]
            if reference.kind == "item":
                if not item:
                    yield self._problem(path, "{item} outside of an `each`", "Name the parameter")
                continue
            known = self._names(files=files)
            if name not in known:
                yield self._problem(
                    path, f"{reference} refers to nothing", did_you_mean(name, known)
                )
            elif reference.kind == "secrets" and not self.manifest.secrets[reference.name].file:
                yield self._problem(
                    path,
                    f"{reference} would put a secret into plain sight",
                    "Say `file: true` to hand over its path, or `env:` to use a variable",
                )
            elif self._is_list(name) and not lists:
                yield self._problem(
                    path,
                    f"{reference} is a list",
                    f"Write {{each: {name}, argv: [...]}} and {{item}}",
                )
            elif not (optional or name == given or self._is_certain(name)):
                yield self._problem(
                    path,
                    f"{reference} may be absent",
                    f"Require it, give it a default, or write {{when: {name}, argv: [...]}}",
                )

    def _lists(self, parsed: Template) -> set[str]:
        names = {str(reference)[1:-1] for reference in template.references(parsed)}
        return {name for name in names & set(self.manifest.parameters) if self._is_list(name)}

    def _names(self, *, files: bool = True) -> set[str]:
        names = set(self.manifest.parameters)
        if files:
            names |= {f"files.{name}" for name in self.manifest.files}
            names |= {f"secrets.{name}" for name in self.manifest.secrets}
            if self.manifest.idempotency is not None:
                names.add(IDEMPOTENCY_KEY)
        return names

    def _is_list(self, name: str) -> bool:
        if name.startswith("files."):
            return self.manifest.files[name.removeprefix("files.")].many
        parameter = self.manifest.parameters.get(name)
        return parameter is not None and parameter.type == "array"

    def _is_certain(self, name: str) -> bool:
        if name == IDEMPOTENCY_KEY:
            return True
        if name.startswith("files."):
            return self.manifest.files[name.removeprefix("files.")].required
        if name.startswith("secrets."):
            return self.manifest.secrets[name.removeprefix("secrets.")].required
        return name in self.manifest.required or not _is_unset(
            self.manifest.parameters[name].default
        )

    # -- identity, environment, secrets -------------------------------------------------------

    def _identity(self) -> Iterator[Problem]:
        known = set(self.manifest.parameters) | {f"files.{name}" for name in self.manifest.files}
        if self.manifest.identity == ():
            yield self._problem(
                ("identity",),
                "nothing, by which every action is the same",
                "Name what makes it the same thing, or remove `identity`",
            )
        for index, part in enumerate(self.manifest.identity or ()):
            name = part.set if isinstance(part, SetOf) else part
            if name not in known:
                yield self._problem(
                    ("identity", index), f"{name!r} is unknown", did_you_mean(name, known)
                )
            elif isinstance(part, SetOf) and not self._is_list(name):
                yield self._problem(("identity", index), f"{name!r} is not a list", "Drop `set`")

    def _environment(self) -> Iterator[Problem]:
        for name, text in self.manifest.env.items():
            path: Path = ("env", name)
            if name in RESERVED_ENVIRONMENT:
                yield self._problem(
                    path, f"{name} belongs to the staging area", "Remove it; it is always set"
                )
            elif LOADER_ENVIRONMENT.fullmatch(name) and not _is_fixed(text):
                yield self._problem(
                    path,
                    f"{name} can make the command run something, and its value comes from outside",
                    "Write a fixed value, or remove it",
                )
            yield from self._template(path, text, optional=True)

    def _secrets(self) -> Iterator[Problem]:
        taken = {*self.manifest.env, *RESERVED_ENVIRONMENT}
        for name, secret in self.manifest.secrets.items():
            path: Path = ("secrets", name)
            if (secret.env is None) == (not secret.file):
                yield self._problem(
                    path, "not exactly one way in", "Give `env: NAME` or `file: true`"
                )
            if secret.env in taken:
                yield self._problem(
                    (*path, "env"), f"{secret.env} is set twice", "Use another name"
                )
            if secret.env is not None:
                taken.add(secret.env)
            if secret.text.count("{secret}") != 1:
                yield self._problem(
                    (*path, "text"), "not exactly one {secret}", 'Write like "Bearer {secret}"'
                )
            source = secret.source
            if source is not None:
                given = [source.file, source.environment, source.command]
                if sum(one is not None for one in given) != 1:
                    yield self._problem(
                        (*path, "source"),
                        "not exactly one source",
                        "Give `file`, `environment` or `command`",
                    )
                if source.command == ():
                    yield self._problem(
                        (*path, "source", "command"), "no command", "Name a program"
                    )

    # -- capabilities, outcomes ---------------------------------------------------------------

    def _capabilities(self) -> Iterator[Problem]:
        for index, use in enumerate(self.manifest.capabilities):
            if use.name not in self.capabilities:
                yield self._problem(
                    ("capabilities", index, "name"),
                    f"{use.name!r} is not a registered capability",
                    did_you_mean(use.name, self.capabilities),
                )

    def _outcomes(self, start: Path = ("outcomes",)) -> Iterator[Problem]:
        taken = {row.code for row in TABLE} | set(outcomes.OWN_CODES)
        for index, outcome in enumerate(self.manifest.outcomes):
            path: Path = (*start, index)
            yield from self._outcome(path, outcome)
            if outcome.code in taken:
                yield self._problem(
                    (*path, "code"),
                    f"{outcome.code} is a code of the gate itself",
                    "Choose a code of your own: callers rely on what it proves",
                )

    def _outcome(self, path: Path, outcome: Outcome) -> Iterator[Problem]:
        yield from self._condition((*path, "when"), outcome.when)
        if outcome.status == "delivered" and outcome.code is not None:
            yield self._problem((*path, "code"), "a code for a delivery", "Remove it")
        if outcome.status != "delivered" and outcome.code is None:
            yield self._problem(path, "no `code`", "Name it, such as CONNECT_FAILED")
        for key in ("result_id", "reply"):
            extract = getattr(outcome, key)
            if extract is not None:
                yield from self._extract((*path, key), extract)

    def _condition(self, path: Path, when: Condition) -> Iterator[Problem]:
        if when == Condition():
            yield self._problem(path, "a condition that always holds", "Say which exit or output")
        exits = (when.exit,) if isinstance(when.exit, int) else when.exit or ()
        if any(not 0 <= code <= 128 for code in exits):
            yield self._problem(
                (*path, "exit"),
                f"{when.exit} is no exit code that a command gives by itself",
                "Use 0 to 128; above, a shell or a sandbox says that a signal ended it",
            )
        for stream in ("stdout", "stderr"):
            pattern = getattr(when, stream)
            if pattern is not None:
                yield from self._regex((*path, stream), pattern)

    def _extract(self, path: Path, extract: Extract) -> Iterator[Problem]:
        given = [one for one in (extract.stdout, extract.stderr, extract.json) if one is not None]
        if len(given) != 1:
            yield self._problem(path, "not exactly one place", "Give stdout, stderr or json")
        for stream in ("stdout", "stderr"):
            pattern = getattr(extract, stream)
            if pattern is not None:
                yield from self._regex((*path, stream), pattern)

    def _regex(self, path: Path, pattern: str) -> Iterator[Problem]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # of what a later Python will read in another way
                re.compile(pattern)
        except (re.error, ValueError, OverflowError, RecursionError, Warning) as bad:
            found = str(bad) or type(bad).__name__
            yield self._problem(path, f"not a regular expression: {found}", "Correct it")

    def _idempotency(self) -> Iterator[Problem]:
        """Demand that the key reaches the provider: without it a resend is a second delivery."""
        manifest = self.manifest
        if manifest.idempotency is None:
            return
        texts = [*_always_said(manifest.argv), *manifest.stage.values()]
        texts += [text for text in manifest.env.values() if self._is_always_filled(text)]
        if manifest.stdin is not None:
            texts.append(manifest.stdin.text or "")
        if not any(IDEMPOTENCY_KEY in _named(text) for text in texts):
            yield self._problem(
                ("idempotency",),
                "nothing hands the key on in every case",
                f"Put {{{IDEMPOTENCY_KEY}}} into argv (not under a `when` or `each`), env, stage "
                "or stdin; or remove `idempotency`",
            )

    def _is_always_filled(self, text: str) -> bool:
        return all(name in self._names() and self._is_certain(name) for name in _named(text))

    # -- look-ups -----------------------------------------------------------------------------

    def _lookups(self) -> Iterator[Problem]:
        lookup, preflight = self.manifest.preflight, preflight_of(self.manifest)
        if lookup is not None and preflight is not None:
            yield from self._side_command("preflight", preflight)
            yield from self._condition(("preflight", "when"), lookup.when)
            for name, extract in lookup.finds.items():
                yield from self._extract(("preflight", "finds", name), extract)
        if (verify := verify_of(self.manifest)) is not None:
            yield from self._side_command("verify", verify)
            yield from replace(self, manifest=verify)._outcomes(("verify", "outcomes"))

    def _side_command(self, key: str, manifest: Manifest) -> Iterator[Problem]:
        """Check a command beside the tool's own, as a tool of its own."""
        check = replace(self, manifest=manifest)
        yield from check._command((key, "command"))
        yield from check._argv((key, "argv"))

    # -- limits, reverse ----------------------------------------------------------------------

    def _limits(self) -> Iterator[Problem]:
        limits = self.manifest.limits
        for key in ("deadline", "memory", "cpu"):
            if getattr(limits, key) == 0:
                yield self._problem(
                    ("limits", key), "nothing can run within it", "Write more than 0"
                )

    def _reverse(self) -> Iterator[Problem]:
        if self.manifest.revertible and self.manifest.reverse is None:
            yield self._problem(
                ("revertible",), "revertible, but not how", "Add `reverse: {pattern: ...}`"
            )
        if not self.manifest.revertible and self.manifest.reverse is not None:
            yield self._problem(
                ("reverse",), "a way back, but not revertible", "Say `revertible: true`"
            )


def _always_said(argv: tuple[str | tuple[str, ...] | Part, ...]) -> Iterator[str]:
    """Give the texts of arguments that no `when` or `each` can leave out."""
    for entry in argv:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, tuple):
            yield from entry


def _named(text: str) -> set[str]:
    """Give the names that a template refers to; a broken one is told elsewhere."""
    try:
        return {str(reference)[1:-1] for reference in template.references(template.parse(text))}
    except ValueError:
        return set()


def _is_unset(value: Any) -> bool:
    import msgspec

    return value is msgspec.UNSET


def _is_fixed(text: str) -> bool:
    """Whether no value from outside is part of ``text``; a broken template is told elsewhere."""
    try:
        return not template.references(template.parse(text))
    except ValueError:
        return False


def _bare(parameter: Parameter) -> Parameter:
    """Give the type alone, for what the other words of the schema are compared with."""
    return Parameter(type=parameter.type, items=parameter.items)


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(map(str.title, rest))
