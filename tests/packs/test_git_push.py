"""git.push, by the real git, to real repositories behind real servers."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from executor import Receipt
from executor.refusal import Refused
from tests.house import House
from tests.packs.servers import (
    Certificate,
    Wire,
    free_port,
    git,
    git_daemon,
    git_http,
    listening,
)
from tests.packs.shipped import end, run

pytestmark = pytest.mark.usefixtures("git")
MAIN = "refs/heads/main"
OPTIONS = ("changes", "secrets", "allow_duplicate")


@dataclass
class Forge:
    """A repository with two commits, one after the other, and a server with an empty one."""

    house: House
    port: int = 0

    @property
    def work(self) -> Path:
        return self.house.root / "work"

    @property
    def served(self) -> Path:
        return self.house.home / "served"

    @property
    def bare(self) -> Path:
        return self.served / "r.git"

    @property
    def url(self) -> str:
        return f"git://127.0.0.1:{self.port}/r.git"

    def make(self) -> None:
        git("init", self.work)
        for text in ("one", "two"):
            (self.work / "file").write_text(text)
            git("add", "file", cwd=self.work)
            git("commit", "-m", text, cwd=self.work)
        self.served.mkdir()
        git("init", "--bare", self.bare)
        (self.bare / "hooks").mkdir(exist_ok=True)

    @property
    def old(self) -> str:
        return git("rev-parse", "HEAD~1", cwd=self.work)

    @property
    def new(self) -> str:
        return git("rev-parse", "HEAD", cwd=self.work)

    def refs(self) -> dict[str, str]:
        """Give what the server has."""
        lines = git("for-each-ref", "--format=%(refname) %(objectname)", cwd=self.bare)
        return dict(line.split() for line in lines.splitlines())

    def hook(self, name: str, script: str) -> None:
        """Give the served repository a hook."""
        hook = self.bare / "hooks" / name
        hook.write_text(f"#!/bin/sh\n{script}\n")
        hook.chmod(0o755)

    async def push(self, commit: str, ref: str = MAIN, **given: Any) -> Receipt:
        options = {key: given.pop(key) for key in OPTIONS if key in given}
        parameters = {
            "git_dir": str(self.work / ".git"),
            "remote": self.url,
            "commit": commit,
            "ref": ref,
            **given,
        }
        return await run(self.house, "git.push", parameters, {}, **options)


@pytest.fixture
def forge(house: House) -> Iterator[Forge]:
    """A repository, and a server for it."""
    made = Forge(house)
    made.make()
    with git_daemon(made.served) as made.port:
        yield made


# -- delivered ------------------------------------------------------------------------------------


# rule: outcomes.declared
async def test_a_commit_that_the_remote_takes_is_delivered(forge: Forge) -> None:
    """What went where is the id: it can be looked for on the remote."""
    receipt = await forge.push(forge.new)

    assert end(receipt) == ("delivered", None)
    assert receipt.result_id == f"{forge.new}:{MAIN}"
    assert receipt.reply == "[new branch]"
    assert forge.refs() == {MAIN: forge.new}
    assert git("show", f"{forge.new}:file", cwd=forge.bare) == "two"


# rule: outcomes.declared
async def test_a_push_forward_and_a_push_of_what_is_there_are_delivered(forge: Forge) -> None:
    """Whoever asked wants the ref to be there, and there it is."""
    await forge.push(forge.old)
    forward = await forge.push(forge.new)
    again = await forge.push(forge.new, allow_duplicate=forward.attempt)

    assert end(forward) == end(again) == ("delivered", None)
    assert forward.reply == f"{forge.old[:7]}..{forge.new[:7]}"
    assert again.reply == "[up to date]"
    assert forge.refs() == {MAIN: forge.new}


# rule: outcomes.declared
async def test_a_tag_is_delivered(forge: Forge) -> None:
    """Releases are tags."""
    receipt = await forge.push(forge.old, "refs/tags/v1.0")

    assert end(receipt) == ("delivered", None)
    assert forge.refs() == {"refs/tags/v1.0": forge.old}


# rule: outcomes.declared
async def test_the_commit_is_pushed_that_was_named_even_if_the_branch_has_moved(
    forge: Forge,
) -> None:
    """Between yes and start, a branch can be set to anything; an id cannot."""
    approved = forge.new
    (forge.work / "file").write_text("not approved")
    git("commit", "-am", "evil", cwd=forge.work)

    receipt = await forge.push(approved)

    assert receipt.status == "delivered"
    assert forge.refs() == {MAIN: approved}


# rule: outcomes.declared
async def test_with_the_right_expected_commit_a_push_may_go_back(forge: Forge) -> None:
    """A correction is possible, if one says what it replaces."""
    await forge.push(forge.new)

    receipt = await forge.push(forge.old, expected=forge.new)

    assert end(receipt) == ("delivered", None)
    assert receipt.reply is not None
    assert "(forced update)" in receipt.reply
    assert forge.refs() == {MAIN: forge.old}


# -- proven: the remote took nothing --------------------------------------------------------------


# rule: outcomes.proven-kept
async def test_a_push_back_is_undelivered_without_the_expected_commit(forge: Forge) -> None:
    """It would throw away what somebody else has pushed."""
    await forge.push(forge.new)

    receipt = await forge.push(forge.old)

    assert end(receipt) == ("undelivered", "PUSH_REJECTED")
    assert receipt.reply == "[rejected] (non-fast-forward)"
    assert forge.refs() == {MAIN: forge.new}


# rule: outcomes.proven-kept
async def test_a_push_back_is_undelivered_with_the_wrong_expected_commit(forge: Forge) -> None:
    """Somebody was faster."""
    await forge.push(forge.new)

    receipt = await forge.push(forge.old, expected=forge.old)

    assert end(receipt) == ("undelivered", "PUSH_REJECTED")
    assert receipt.reply == "[rejected] (stale info)"
    assert forge.refs() == {MAIN: forge.new}


# rule: outcomes.proven-kept
async def test_a_tag_that_is_there_is_not_moved(forge: Forge) -> None:
    """Others rely on it."""
    await forge.push(forge.old, "refs/tags/v1.0")

    receipt = await forge.push(forge.new, "refs/tags/v1.0")

    assert end(receipt) == ("undelivered", "PUSH_REJECTED")
    assert forge.refs() == {"refs/tags/v1.0": forge.old}


LYING_TEXT = r"""printf '%s\n' "fatal: unable to access 'x': Could not resolve host" \
  "fatal: unable to connect to x" "fatal: repository 'x' not found" \
  "fatal: could not read Username for x" "fatal: bad object 11" "!	x	[rejected] no" \
  "=	1:refs/heads/main	[up to date]" "Done"
printf 'a\rfatal: unable to connect to x\r\nfatal: unable to connect to y\n' >&2
"""


# rule: outcomes.proven-kept
async def test_a_push_that_a_hook_of_the_remote_declines_is_undelivered(forge: Forge) -> None:
    """What the hook prints cannot pose as git's own word, in either direction."""
    forge.hook("pre-receive", LYING_TEXT + "exit 1")

    receipt = await forge.push(forge.new)

    assert end(receipt) == ("undelivered", "PUSH_REJECTED")
    assert receipt.reply == "[remote rejected] (pre-receive hook declined)"
    assert forge.refs() == {}


# rule: outcomes.proven-kept
@pytest.mark.parametrize("ref", [MAIN, "refs/tags/v1"])
async def test_a_commit_that_is_not_there_is_undelivered(forge: Forge, ref: str) -> None:
    """A typing error in an id, or a commit of another repository."""
    receipt = await forge.push("1" * 40, ref)

    assert end(receipt) == ("undelivered", "NO_SUCH_COMMIT")
    assert receipt.reply == f"fatal: bad object {'1' * 40}"
    assert forge.refs() == {}


# rule: outcomes.proven-kept
async def test_a_commit_whose_objects_lie_elsewhere_is_undelivered(forge: Forge) -> None:
    """Only the objects of the named directory are in reach, not those that it refers to."""
    shared = forge.house.root / "shared"
    git("clone", "--shared", forge.work, shared)

    receipt = await forge.push(forge.new, git_dir=str(shared / ".git"))

    assert end(receipt) == ("undelivered", "NO_SUCH_COMMIT")
    assert forge.refs() == {}


# rule: outcomes.proven-kept
@pytest.mark.parametrize("ref", ["refs/heads/a..b", "refs/heads/a.lock", "refs/heads/a//b"])
async def test_a_name_that_git_does_not_take_is_undelivered(forge: Forge, ref: str) -> None:
    """git knows the whole rule; the manifest only keeps out what is dangerous."""
    receipt = await forge.push(forge.new, ref)

    assert end(receipt) == ("undelivered", "INVALID_REF")
    assert forge.refs() == {}


# rule: outcomes.proven-kept
async def test_a_repository_that_is_not_there_is_undelivered(forge: Forge) -> None:
    """The daemon says so before it asks for anything."""
    receipt = await forge.push(forge.new, remote=f"git://127.0.0.1:{forge.port}/none.git")

    assert end(receipt) == ("undelivered", "NO_SUCH_REPOSITORY")


# rule: outcomes.proven-kept
@pytest.mark.parametrize("scheme", ["git", "http", "https"])
async def test_a_port_that_nobody_listens_on_is_undelivered(forge: Forge, scheme: str) -> None:
    """Nothing was there to take it."""
    receipt = await forge.push(forge.new, remote=f"{scheme}://127.0.0.1:{free_port()}/r.git")

    assert end(receipt) == ("undelivered", "CONNECT_FAILED")


# rule: outcomes.proven-kept
@pytest.mark.parametrize("scheme", ["git", "http", "https"])
async def test_a_name_that_does_not_resolve_is_undelivered(forge: Forge, scheme: str) -> None:
    """A name below .invalid never does (RFC 6761)."""
    receipt = await forge.push(forge.new, remote=f"{scheme}://nowhere.invalid/r.git")

    assert end(receipt) == ("undelivered", "RESOLVE_FAILED")


# -- unknown --------------------------------------------------------------------------------------


# rule: outcomes.unknown-holds
async def test_a_remote_that_dies_after_it_took_the_commit_is_unresolved(forge: Forge) -> None:
    """The ref is set; only the word of it was lost, and lies stand in its place."""
    forge.hook("post-receive", LYING_TEXT + "kill -9 $PPID")

    receipt = await forge.push(forge.new)

    assert end(receipt) == ("unresolved", "OUTCOME_UNKNOWN")
    assert forge.refs() == {MAIN: forge.new}


# rule: outcomes.unknown-holds
async def test_a_remote_that_dies_before_it_took_the_commit_is_unresolved_too(
    forge: Forge,
) -> None:
    """From here the two cannot be told apart."""
    forge.hook("pre-receive", LYING_TEXT + "kill -9 $PPID")

    receipt = await forge.push(forge.new)

    assert receipt.status == "unresolved"
    assert forge.refs() == {}


# rule: outcomes.declared
async def test_lies_of_a_hook_after_the_fact_change_nothing_about_a_delivery(
    forge: Forge,
) -> None:
    """What the remote says is shown, and judged by nobody."""
    forge.hook("post-receive", LYING_TEXT)

    receipt = await forge.push(forge.new)

    assert end(receipt) == ("delivered", None)
    assert receipt.result_id == f"{forge.new}:{MAIN}"
    assert receipt.finished is not None
    assert b"remote: fatal: unable to connect to x" in receipt.finished.stderr.kept


# rule: outcomes.unknown-holds
@pytest.mark.parametrize(
    "said",
    [b"", b"0000", b"garbage", b"0028ERR x\nfatal: unable to connect to y\n"],
    ids=["nothing", "flush", "garbage", "error-in-two-lines"],
)
async def test_a_server_that_is_no_git_server_never_makes_a_delivery(
    forge: Forge, said: bytes
) -> None:
    """Whatever it says in front, git alone writes at the beginning of stderr."""
    with listening(lambda wire: wire.say(said)) as port:  # type: ignore[func-returns-value]
        receipt = await forge.push(forge.new, remote=f"git://127.0.0.1:{port}/r.git")

    assert receipt.status == "unresolved"  # by its exit, or by SIGPIPE


# rule: outcomes.signals
async def test_a_server_that_says_nothing_is_unresolved_at_the_deadline(forge: Forge) -> None:
    """We ended it, so nobody says how far it came."""

    def hang(wire: Wire) -> None:
        wire.hang()

    with listening(hang) as port:
        receipt = await forge.push(
            forge.new,
            remote=f"git://127.0.0.1:{port}/r.git",
            changes={"deadline: 300 s": "deadline: 2 s"},
        )

    assert end(receipt) == ("unresolved", "TIMED_OUT")


# -- over HTTP ------------------------------------------------------------------------------------


# rule: outcomes.declared
async def test_a_push_over_http_is_delivered(forge: Forge) -> None:
    """The way that most remotes are reached."""
    with git_http(forge.served) as server:
        receipt = await forge.push(forge.new, remote=f"http://127.0.0.1:{server.port}/r.git")

    assert end(receipt) == ("delivered", None)
    assert forge.refs() == {MAIN: forge.new}


# rule: outcomes.proven-kept
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "LOGIN_DENIED"),
        (403, "REMOTE_REFUSED"),
        (404, "NO_SUCH_REPOSITORY"),
        (500, "REMOTE_REFUSED"),
        (503, "REMOTE_REFUSED"),
    ],
)
async def test_a_no_to_the_first_question_is_undelivered(
    forge: Forge, status: int, code: str
) -> None:
    """git asks what the remote has before it sends anything; the text of the no is not git's."""
    answers = {"GET": (status, {"WWW-Authenticate": 'Basic realm="x"'} if status == 401 else {})}
    with git_http(forge.served, answers=answers) as server:
        receipt = await forge.push(forge.new, remote=f"http://127.0.0.1:{server.port}/r.git")

    assert end(receipt) == ("undelivered", code)
    assert all(asked.startswith("GET ") for asked, _ in server.seen)


# rule: outcomes.unknown-holds
@pytest.mark.parametrize("status", [403, 404, 500, 502])
async def test_a_no_to_the_push_itself_is_unresolved(forge: Forge, status: int) -> None:
    """The commit was in that request; a gateway says so too while the server works."""
    with git_http(forge.served, answers={"POST": (status, {})}) as server:
        receipt = await forge.push(forge.new, remote=f"http://127.0.0.1:{server.port}/r.git")

    assert end(receipt) == ("unresolved", "OUTCOME_UNKNOWN")


async def test_a_redirect_is_not_followed(forge: Forge) -> None:
    """What was approved is this remote, not the one it points to today."""
    with git_http(forge.served) as other:
        where = f"http://127.0.0.1:{other.port}/r.git/info/refs?service=git-receive-pack"
        with git_http(forge.served, answers={"GET": (301, {"Location": where})}) as server:
            receipt = await forge.push(forge.new, remote=f"http://127.0.0.1:{server.port}/r.git")

    assert end(receipt) == ("undelivered", "REMOTE_REFUSED")
    assert other.seen == []
    assert forge.refs() == {}


AUTHORIZATION = "Bearer tok_0123456789"


# rule: spawning.secrets
@pytest.mark.parametrize(
    ("given", "expected"),
    [(AUTHORIZATION, ("delivered", None)), ("Bearer wrong", ("undelivered", "LOGIN_DENIED"))],
    ids=["right", "wrong"],
)
async def test_an_authorization_reaches_the_remote_over_tls_and_shows_nowhere(
    forge: Forge, certificate: Certificate, given: str, expected: tuple[str, str | None]
) -> None:
    """It travels in a variable of the sandbox, not in the command line that anybody can list."""
    lines = "".join(f"    {line}\n" for line in certificate.text.splitlines())
    with git_http(
        forge.served, authorization=AUTHORIZATION, context=certificate.context()
    ) as server:
        receipt = await forge.push(
            forge.new,
            remote=f"https://localhost:{server.port}/r.git",
            secrets={"authorization": given},
            changes={
                "stage:\n": f"stage:\n  own.pem: |\n{lines}",
                "env:\n  GIT_CONFIG_GLOBAL": "env:\n  GIT_SSL_CAINFO: own.pem\n  GIT_CONFIG_GLOBAL",
            },
        )

    assert end(receipt) == expected
    assert {authorization for _, authorization in server.seen} == {given}
    assert forge.refs() == ({MAIN: forge.new} if expected[0] == "delivered" else {})
    assert receipt.action is not None
    for told in (receipt.action.argv, receipt.action.env, receipt.result(), receipt.statement()):
        assert given not in repr(told)


# rule: spawning.secrets
@pytest.mark.parametrize("scheme", ["http", "git"])
async def test_an_authorization_is_not_sent_without_tls(forge: Forge, scheme: str) -> None:
    """Anybody on the way could read it, and use it."""
    with git_http(forge.served) as server:
        port = server.port if scheme == "http" else forge.port
        receipt = await forge.push(
            forge.new,
            remote=f"{scheme}://127.0.0.1:{port}/r.git",
            secrets={"authorization": AUTHORIZATION},
        )

    assert end(receipt) == ("undelivered", "TLS_REQUIRED")
    assert server.seen == []
    assert forge.refs() == {}


# rule: outcomes.proven-kept
async def test_a_certificate_that_is_not_trusted_is_undelivered(
    forge: Forge, certificate: Certificate
) -> None:
    """Nothing is said to a stranger."""
    with git_http(forge.served, context=certificate.context()) as server:
        receipt = await forge.push(forge.new, remote=f"https://localhost:{server.port}/r.git")

    assert end(receipt) == ("undelivered", "REMOTE_REFUSED")
    assert server.seen == []


# -- the repository's own configuration plays no part ---------------------------------------------


# rule: isolation.paths
async def test_configuration_and_hooks_of_the_repository_play_no_part(forge: Forge) -> None:
    """Whoever can write into a work tree could otherwise run programs, or turn the push away."""
    elsewhere = forge.served / "elsewhere.git"
    git("init", "--bare", elsewhere)
    ran = forge.work / "ran"
    script = forge.work / ".git" / "hooks" / "pre-push"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    script.chmod(0o755)
    for name, value in {
        f"url.git://127.0.0.1:{forge.port}/elsewhere.git.insteadOf": forge.url,
        f"url.git://127.0.0.1:{forge.port}/elsewhere.git.pushInsteadOf": forge.url,
        "core.sshCommand": f"touch {ran}",
        "core.gitProxy": f"touch {ran}",
        "core.hooksPath": str(script.parent),
        "core.fsmonitor": f"touch {ran}",
        "credential.helper": f"!touch {ran}",
        "http.proxy": "http://127.0.0.1:1",
        "push.gpgSign": "true",
        "push.followTags": "true",
        "remote.origin.url": forge.url,
        "remote.origin.mirror": "true",
        "remote.origin.receivepack": f"touch {ran}",
        "include.path": str(forge.work / "more"),
    }.items():
        git("config", name, value, cwd=forge.work)
    git("tag", "-a", "-m", "x", "annotated", cwd=forge.work)
    git("replace", forge.new, forge.old, cwd=forge.work)

    receipt = await forge.push(forge.new)

    assert end(receipt) == ("delivered", None)
    assert forge.refs() == {MAIN: forge.new}
    assert git("for-each-ref", cwd=elsewhere) == ""
    assert not ran.exists()


# rule: isolation.paths
async def test_nothing_is_written_into_the_repository(forge: Forge) -> None:
    """A push of one commit changes no ref, no log and no configuration at home."""

    def everything() -> dict[str, int]:
        found = {}
        for directory, _, names in os.walk(forge.work / ".git"):
            for name in names:
                path = os.path.join(directory, name)
                found[path] = os.stat(path).st_mtime_ns
        return found

    before = everything()
    receipt = await forge.push(forge.new)

    assert receipt.status == "delivered"
    assert everything() == before


# rule: isolation.paths
@pytest.mark.parametrize("place", ["outside", "link", "none"])
async def test_a_repository_that_is_not_below_a_root_is_refused(forge: Forge, place: str) -> None:
    """Its objects would be readable to the command, and then to the remote."""
    outside = forge.house.home / "outside"
    git("clone", "--bare", forge.work, outside)
    (forge.house.root / "link").symlink_to(outside)
    named = {"outside": outside}.get(place, forge.house.root / place)

    with pytest.raises(Refused) as no:
        await forge.push(forge.new, git_dir=str(named))

    assert no.value.code in ("PATH_NOT_ALLOWED", "PATH_NOT_FOUND")
    assert forge.refs() == {}


def test_the_server_of_these_tests_can_be_written_to(forge: Forge) -> None:
    """A server that refuses everything would prove whatever we like."""
    git("push", forge.url, f"HEAD:{MAIN}", cwd=forge.work)

    assert forge.refs() == {MAIN: forge.new}


# rule: spawning.minimal-env
async def test_git_speaks_as_the_outcomes_expect_whatever_the_callers_settings(
    forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Translated words would match no pattern; other variables could turn the push elsewhere."""
    for name, value in {
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "de_DE.UTF-8",
        "LANGUAGE": "de:fr",
        "GIT_DIR": str(forge.house.root),
        "GIT_SSH_COMMAND": "false",
        "GIT_PROXY_COMMAND": "false",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "url.git://127.0.0.1:1/.insteadOf",
        "GIT_CONFIG_VALUE_0": forge.url,
        "GIT_TRACE": "1",
        "http_proxy": "http://127.0.0.1:1",
        "ALL_PROXY": "http://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(name, value)

    missing = await forge.push("1" * 40)
    pushed = await forge.push(forge.new)

    assert end(missing) == ("undelivered", "NO_SUCH_COMMIT")
    assert end(pushed) == ("delivered", None)
