"""On whose behalf, on what, and to where: taken from the same words as the command itself."""

from typing import Any

import pytest

from executor import AskedBy
from executor.frozen import Endpoint, HostPath, Target
from executor.rules import admission
from tests.admission.forge import GONE, admit, refused, request, tool

TEXT = {"type": "string"}
LIST = {"type": "array", "items": TEXT}


# rule: admission.closed-request
def test_an_account_that_differs_from_the_tools_is_refused_closed_request() -> None:
    """The account is the namespace of "at most once": a wrong one is a second first time."""
    it = tool({"server": TEXT}, ["x"], required=["server"], account="me@{server}")
    assert admit(it, {"server": "a"}).account == "me@a"
    assert admit(it, {"server": "a"}, account="me@a").account == "me@a"

    for other in ("me@b", "ME@A", "me@a "):
        no = refused(it, {"server": "a"}, account=other)
        assert (no.rule, no.code) == ("admission.closed-request", "INVALID_REQUEST")
        assert other in no.because
        assert "me@a" in no.because


# rule: admission.closed-request
def test_an_account_is_always_named_closed_request() -> None:
    """Without one, two people's actions would be the same thing."""
    it = tool(account=GONE)
    assert admit(it, account="ana").account == "ana"

    no = refused(it)

    assert (no.rule, no.code) == ("admission.closed-request", "INVALID_REQUEST")
    assert "--account" in no.todo


def test_an_account_of_blanks_is_none_closed_request() -> None:
    """A template can be filled with nothing; that names nobody."""
    it = tool({"who": TEXT}, ["x"], required=["who"], account="{who}")
    assert admit(it, {"who": "ana"}).account == "ana"

    for blank in ("", " ", "\t"):
        assert refused(it, {"who": blank}).code == "INVALID_REQUEST"
        assert refused(it, {"who": blank}, account="ana").code == "INVALID_REQUEST"


def test_each_item_of_a_list_is_a_target() -> None:
    """Policy decides on every recipient, or it decides on none."""
    it = tool(
        {"to": LIST, "server": TEXT},
        ["x"],
        required=["to", "server"],
        capabilities=[
            {"name": "mail:send", "targets": "{to} via {server}"},
            {"name": "network:http", "targets": "{server}"},
            {"name": "compute:pure"},
        ],
    )

    asked = admit(it, {"to": ["a", "b", "b"], "server": "s"})

    assert asked.targets == (
        Target("mail:send", "a via s"),
        Target("mail:send", "b via s"),
        Target("mail:send", "b via s"),
        Target("network:http", "s"),
        Target("compute:pure", None),
    )


def test_a_capability_on_an_empty_list_is_still_used() -> None:
    """With no target at all the capability itself would vanish before the policy sees it."""
    uses = [{"name": "mail:send", "targets": "{to}"}]
    it = tool({"to": LIST}, ["x"], required=["to"], capabilities=uses)

    assert admit(it, {"to": []}).targets == (Target("mail:send", None),)


def test_the_endpoints_are_those_the_command_is_given() -> None:
    """What the sandbox opens and what the command dials must be one host."""
    it = tool(
        {"url": TEXT, "proxy": TEXT},
        ["x"],
        required=["url"],
        isolation={"network": ["{url}", "{proxy}:3128", "fixed.example:25"]},
    )

    assert admit(it, {"url": "https://Example.org/x"}).network == (
        Endpoint("example.org", 443),
        Endpoint("fixed.example", 25),
    )
    assert admit(it, {"url": "ssh://git@[::1]:2222/", "proxy": "p"}).network == (
        Endpoint("::1", 2222),
        Endpoint("p", 3128),
        Endpoint("fixed.example", 25),
    )


# rule: admission.closed-parameters
@pytest.mark.parametrize(
    "text",
    ["example.org", "ftp://example.org", "https://a@b@c/", "http://ev%69l.example/",
     "good:80@evil:443",
     "u@h:80", "h:0", "h:99999", "h:80x", "-h:80", "127.1:80", "h h:80", "http://h\t:80", ":80",
     "//h:80", "h:80/path", "http://u:p@h:80", "::1:80", "[::1]", "unix:/run/x.sock"],
)  # fmt: skip
def test_a_place_that_is_not_surely_one_host_and_port_is_refused_closed_parameters(
    text: str,
) -> None:
    """`good:80@evil:443` is `good` to a reader and `evil` to curl."""
    it = tool({"at": TEXT}, ["x"], required=["at"], isolation={"network": ["{at}"]})
    assert admit(it, {"at": "good:80"}).network == (Endpoint("good", 80),)

    no = refused(it, {"at": text})

    assert (no.rule, no.code) == ("admission.closed-parameters", "INVALID_PARAMETERS")
    assert "host and a port" in no.because


def test_paths_say_whether_a_caller_chose_them() -> None:
    """What a caller names is narrowed to the roots; what the tool names is not."""
    it = tool(
        {"dir": TEXT, "more": TEXT},
        ["x"],
        required=["dir"],
        isolation={"read": ["/usr/share/x", "{dir}/objects", "{more}"], "write": ["{dir}"]},
    )

    asked = admit(it, {"dir": "/r"})

    assert asked.read == (HostPath("/usr/share/x", False), HostPath("/r/objects", True))
    assert asked.write == (HostPath("/r", True),)


def test_what_may_be_absent_leaves_its_variable_out() -> None:
    """An empty variable is not the same as none."""
    it = tool({"who": TEXT}, ["x"], env={"WHO": "{who}", "LANG": "C"})

    assert admit(it).env == {"LANG": "C"}
    assert admit(it, {"who": ""}).env == {"LANG": "C", "WHO": ""}


def test_a_secret_without_a_source_leaves_its_part_out() -> None:
    """The command is not told to read a file that will not be there."""
    it = tool(
        secrets={"key": {"file": True, "required": False}, "env": {"env": "K", "required": False}},
        argv=[
            {"when": "secrets.key", "argv": ["--key={secrets.key}"]},
            {"when": "secrets.env", "argv": ["--from-env"]},
        ],
    )

    assert admission.admit(it, request()).argv == ()
    assert admission.admit(it, request(), ["key"]).argv == ("--key=../secrets/key",)
    assert admission.admit(it, request(), ["env"]).argv == ("--from-env",)


def test_the_same_words_are_the_same_action_whoever_asks() -> None:
    """What is asked depends on the request's words, and on nothing around them."""
    it = tool({"x": TEXT})

    def asked(**changes: Any) -> Any:
        return admit(it, {"x": "y"}, **changes)

    assert asked() == asked(note="again", asked_by=AskedBy(role="other"))
    assert asked() != admit(it, {"x": "z"})
