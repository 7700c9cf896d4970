"""What a caller, a file or a server wrote never reaches the terminal raw."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from executor.cli.output import printable
from tests.cli.call import Cli, finish, read_terminal, terminal

NASTY = [
    "\x1b[2J",  # clears the screen
    "\x1b]0;title\x07",
    "\x08\x08",
    "\r",
    "\x7f",
    "\x9b31m",  # the same as ESC [, in one character
    "\u202e",  # right to left from here
    "\u200b",  # no width
    "\ufeff",
    "\U000e0041",  # a tag, which shows nothing
    "\u2028",  # ends a line
    "\u115f",  # an empty letter
]
QUOTING = {
    "when": {"exit": 0},
    "is": "delivered",
    "result_id": {"stdout": r"(?s)id=(.*)END"},
    "reply": {"stdout": r"(?s)id=(.*)END"},
}
OUR_COLORS = re.compile(r"\x1b\[(0|1|2|31|32|33)m")


def shown(cli: Cli, *words: str) -> str:
    """Give what a terminal gets, without our own colors and line ends."""
    with terminal() as (ours, theirs):
        process = cli.start(*words, stdout=theirs, stderr=theirs, env={"TERM": "xterm"})
        text = read_terminal(ours, theirs, process)
        finish(process)
    return OUR_COLORS.sub("", text).replace("\r\n", "\n")


def harmless(text: str) -> None:
    found = [nasty for nasty in NASTY if nasty in text]
    assert not found, (found, text)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), text


def request_file(cli: Cli, **request: Any) -> str:
    asked = {"executor": "request/1", "tool": "test.fake", "asked_by": {"role": "a"}} | request
    path = cli.house.root / "request.json"
    path.write_text(json.dumps(asked))
    return str(path)


@pytest.mark.parametrize("nasty", NASTY, ids=ascii)
def test_a_character_that_would_act_or_hide_is_shown_as_its_escape(nasty: str) -> None:
    """One that got through would be enough."""
    harmless(printable(f"a{nasty}b"))
    assert len(printable(nasty)) > len(nasty)


@pytest.mark.parametrize(
    "request_",
    [
        {"tool": "test%s.fake"},
        {"parameters": {"plan%s": "x"}},
        {"parameters": {"plan": ["%s"]}},
        {"files": {"data%s": "x"}},
        {"files": {"data": "no%swhere"}},
        {"tool%s": "x"},
        {"account": "who%s"},
    ],
    ids=str,
)
def test_a_request_is_shown_with_escapes(cli: Cli, request_: dict[str, Any]) -> None:
    """Whoever reads a refusal must read what was asked, and not what it would like to look like."""
    cli.house.manifest(files={"data": {}})
    nasty = json.dumps("".join(NASTY))[1:-1]
    asked = json.loads(json.dumps(request_).replace("%s", nasty))

    text = shown(cli, "run", request_file(cli, **asked), *cli.where)

    assert "refused" in text
    harmless(text)


def test_words_on_the_command_line_are_shown_with_escapes(cli: Cli) -> None:
    """They are often filled in by a script from somebody else's data."""
    cli.house.manifest()
    nasty = "".join(NASTY)
    for words in (
        ["run", f"test.{nasty}"],
        ["run", f"./{nasty}.yaml"],
        ["run", "test.fake", "-p", nasty],
        ["run", "test.fake", "-p", f"{nasty}=x"],
        ["run", "test.fake", "-f", f"{nasty}=x"],
        ["run", "test.fake", f"--{nasty}"],
        ["run", "test.fake", "--config", nasty],
        ["run", "test.fake", "--state", f"/proc/{nasty}"],
        ["run", "test.fake", "--manifest", nasty],
        ["manifest", "check", nasty],
        ["doctor", "--state", f"/proc/{nasty}"],
        [nasty],
    ):
        text = shown(cli, *words)

        assert text.strip()
        harmless(text)


def test_what_the_command_says_is_shown_with_escapes(cli: Cli, namespaced: None) -> None:
    """A server's reply is a stranger's text."""
    nasty = "".join(NASTY)
    cli.house.manifest(outcomes=[QUOTING])

    delivered = shown(cli, *cli.fake({"stdout": f"id=A{nasty}\nZEND"}))
    failed = shown(cli, *cli.fake({"stderr": nasty, "then": {"exit": 9}}))

    assert "delivered" in delivered
    assert "unresolved" in failed
    harmless(delivered)
    harmless(failed)


def test_a_reply_of_several_lines_cannot_pass_for_lines_of_ours(cli: Cli, namespaced: None) -> None:
    """`\\n  receipt    /etc/forged` would look like a line of the executor."""
    cli.house.manifest(outcomes=[QUOTING])

    done = cli(*cli.fake({"stdout": "id=1\n  receipt    forged\nexecutor: forgedEND"}))

    lines = done.out.splitlines()
    assert sum(line.startswith("  receipt  ") for line in lines) == 1
    assert not any(line.startswith("executor:") for line in lines)
    assert "forged" in done.out


def test_a_manifest_is_shown_with_escapes(cli: Cli) -> None:
    """A manifest comes with a repository, and `check` is run to see whether it can be trusted."""
    nasty = "".join(NASTY)
    path = cli.house.root / "m.yaml"
    path.write_text(json.dumps({"tool": nasty, nasty: 1, "argv": [nasty]}))

    text = shown(cli, "manifest", "check", str(path))

    assert "unknown key" in text
    harmless(text)


def test_json_is_ascii_whatever_was_said(cli: Cli, namespaced: None) -> None:
    """Also somebody who reads JSON in a terminal is safe."""
    done = cli(*cli.fake({"stdout": "id=" + "".join(NASTY)}), "--json")

    assert done.out.isascii()
    harmless(done.out)
    assert done.result()["output"]["stdout"]["text"] == "id=" + "".join(NASTY)


def test_ordinary_letters_stay_readable(cli: Cli, namespaced: None) -> None:
    """Escaping what people write would hide it from them too."""
    done = cli(*cli.fake({"stdout": "id=Zoë漢字😀\n"}))

    assert "Zoë漢字😀" in done.out


def test_a_path_with_a_line_break_stays_on_its_line(cli: Cli, tmp_path: Path) -> None:
    """A file name can hold a whole forged message."""
    path = tmp_path / "a.yaml: fine\nexecutor: all is valid"
    path.write_text("tool: 1\n")

    done = cli("manifest", "check", str(path))

    assert not any(line.startswith("executor:") for line in done.err.splitlines())
