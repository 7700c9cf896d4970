"""Parameters of the packs: what could mean two things to a command or a server is refused."""

from typing import Any

import pytest

from executor import AskedBy, Request
from executor.frozen import Asked
from executor.loading import load_tools
from executor.refusal import Refused
from executor.rules import admission

PACKS = load_tools([])
RIGHT: dict[str, dict[str, Any]] = {
    "mail.send": {
        "server": "smtps://mail.example.org:465",
        "helo": "host.example.org",
        "sender": "ana@example.org",
        "to": ["bo@example.org", "c.y+x@example.org"],
    },
    "mail.draft.send": {
        "store": "/home/ana/a mail store",
        "draft": "d-17_a",
        "server": "mail.example.org",
        "port": 587,
    },
    "mail.schedule": {
        "store": "/home/ana/mail",
        "draft": "d1",
        "at": "2190-05-01T09:30:00+02:00",
    },
    "http.post": {
        "url": "https://api.example.org:8443/hook?q=1&r=%22#x@y",
        "content_type": "text/plain; charset=utf-8",
    },
    "git.push": {
        "git_dir": "/home/ana/project/.git",
        "remote": "https://git.example.org/ana/project.git",
        "commit": "0" * 40,
        "ref": "refs/heads/topic/one-two_3.4",
        "expected": "a" * 64,
    },
    "file.copy": {"directory": "/home/ana/out", "name": "it's a name.txt"},
}
FILES = {"mail.send": "message", "http.post": "body", "file.copy": "source"}
WRONG: list[tuple[str, dict[str, Any]]] = [
    *[
        ("mail.send", {"server": server})
        for server in (
            "http://127.0.0.1:25",
            "smtp://127.0.0.1:25/evil.example",
            "smtp://ana@127.0.0.1:25",
            "smtp://ana;AUTH=NTLM@127.0.0.1:25",
            "smtp://127.0.0.1:25?x",
            "smtp://127.0.0.1:25\n",
            "smtp://[1-9].example.org%00",
            "--config=x",
        )
    ],
    *[("mail.send", {"helo": helo}) for helo in ("a b", "a/../b", "", "a\r\nMAIL", "a?b", "-a")],
    *[
        ("mail.send", {"sender": sender})
        for sender in (
            "<ana@example.org>",
            "ana@example.org> SIZE=1",
            "Ana <ana@example.org>",
            "ana@example.org,eve@example.org",
            "-ana@example.org",
            "",
        )
    ],
    *[
        ("mail.send", {"to": to})
        for to in (
            [],
            "bo@example.org",
            ["bo@example.org,eve@example.org"],
            ["bo@example.org eve@example.org"],
            ["bo@example.org>\r\nRCPT TO:<eve@example.org"],
            ["-bo@example.org"],
            ["@eve.example:bo@example.org"],
            ["bo@example.org", "bo@example.org"],
            ["bo"],
        )
    ],
    *[
        (tool, {"store": store})
        for tool in ("mail.draft.send", "mail.schedule")
        for store in ("mail", "-mail", "/", "//mail", "/mail/", "", "/a\nb", "+inbox", "~/mail")
    ],
    *[
        (tool, {"draft": draft})
        for tool in ("mail.draft.send", "mail.schedule")
        for draft in ("", "../d1", "a/b", ",d1", "d1.orig", "d1\n", "-help", "+inbox", "d 1", "d@1")
    ],
    *[
        ("mail.draft.send", {"server": server})
        for server in ("", "-snoop", "a b", "localhost:25", "a/b", "localhost\n", "[::1]")
    ],
    *[("mail.draft.send", {"port": port}) for port in (0, 65536, -1, "25", 2.5)],
    *[
        ("mail.schedule", {"at": at})
        for at in ("soon", "2190-05-01T09:30:00", "2190-05-01", "", "-1", "2190-05-01T09:30:00Z\n")
    ],
    *[
        ("http.post", {"url": url})
        for url in (
            "file:///etc/passwd",
            "ftp://127.0.0.1/",
            "http://ana@127.0.0.1/",
            "http://ana:pw@127.0.0.1/",
            "http:///path",
            "http://127.0.0.1/ x",
            "http://127.0.0.1/\n",
            "http://127.0.0.1:0/",
            "-o/tmp/x",
        )
    ],
    *[
        ("http.post", {"content_type": kind})
        for kind in ("text/plain\r\nX-Evil: 1", "@/etc/passwd", "", "text", "text/plain\n")
    ],
    *[
        ("git.push", {"remote": remote})
        for remote in (
            "ext::sh -c touch% /tmp/x",
            "ext::sh",
            "fd::17",
            "--upload-pack=touch x",
            "--receive-pack=touch x",
            "git://-oProxyCommand=x/r.git",
            "ssh://127.0.0.1/r.git",
            "git+ssh://127.0.0.1/r.git",
            "git@127.0.0.1:r.git",
            "file:///tmp/r.git",
            "/tmp/r.git",
            "origin",
            "https://ana:pw@127.0.0.1/r.git",
            "https://ana@127.0.0.1/r.git",
            "https://127.0.0.1",
            "https://127.0.0.1/r.git\n",
        )
    ],
    *[
        ("git.push", {"commit": commit})
        for commit in ("HEAD", "main", "abc1234", "--all", "", "+" + "1" * 39, "A" * 40, "1" * 41)
    ],
    *[
        ("git.push", {"ref": ref})
        for ref in (
            "main",
            "HEAD",
            "refs/heads/",
            "refs/heads/-x",
            "refs/heads/a:refs/heads/b",
            "refs/heads/*",
            "refs/heads/a b",
            "refs/heads/a^{}",
            "refs/heads/a\n",
            "refs/notes/x",
            "+refs/heads/main",
            "--mirror",
        )
    ],
    *[("git.push", {"expected": expected}) for expected in ("", "main", "0", "--force")],
    *[
        ("git.push", {"git_dir": place})
        for place in ("--exec-path=/x", "work/.git", "/tmp\n/x", "")
    ],
    *[
        ("file.copy", {"name": name})
        for name in (
            ".", "..", "", "a/b", "../b", "/etc/x", "a\nb", "a\tb", "a\x00b", "a\n", "x" * 201,
        )
    ],
    *[
        ("file.copy", {"directory": directory})
        for directory in ("target", "-t/etc", "/", "//etc", "/etc/", "/a//b", "", "/a\nb")
    ],
]  # fmt: skip


def admit(tool: str, changes: dict[str, Any]) -> Asked:
    """Ask for a tool, with some of the right parameters exchanged."""
    return admission.admit(
        PACKS[tool],
        Request(
            tool=tool,
            asked_by=AskedBy(role="tester"),
            parameters=RIGHT[tool] | changes,
            files={FILES[tool]: "given.txt"} if tool in FILES else {},
        ),
    )


# rule: admission.closed-parameters
@pytest.mark.parametrize("tool", RIGHT)
def test_plain_values_are_admitted_each_as_its_own_argument(tool: str) -> None:
    """The twin of every refusal below."""
    asked = admit(tool, {})

    words = [str(item) for value in RIGHT[tool].values() if isinstance(value, list)
             for item in value]  # fmt: skip
    assert all(word in asked.argv for word in words)


# rule: admission.closed-parameters
@pytest.mark.parametrize(("tool", "wrong"), WRONG, ids=repr)
def test_a_value_that_could_mean_something_else_is_refused(
    tool: str, wrong: dict[str, Any]
) -> None:
    """Nothing may reach a command that it or a server could read as more than one thing."""
    with pytest.raises(Refused) as no:
        admit(tool, wrong)

    assert no.value.code in ("INVALID_PARAMETERS", "ARGUMENT_LOOKS_LIKE_OPTION")
