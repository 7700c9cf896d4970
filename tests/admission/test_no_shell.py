"""argv is a list: a value is one element of it, whatever it holds, and no text is a program."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.problems import Faulty
from executor.refusal import Refused
from executor.rules import shells
from tests.admission.forge import admit, tool
from tests.house import House, recorded

AWKWARD = (
    "", " ", "two words", "two\nlines", "it's", '"', "`id`", "$(id)", "${HOME}", "$HOME", "a;b",
    "a && b", "a | b", "> f", "*", "~", "#", "\\", "\\n", "!", "{x}", "{{", "}", "%s", "é", "漢",
    "😀", "\u202e", "\x1b[2K", "\t", "git status; rm -rf x", "--", "-rf",
)  # fmt: skip
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


# rule: admission.no-shell
@pytest.mark.parametrize("level", ["bare", "namespaced"])
async def test_every_value_reaches_the_command_as_it_is_no_shell(
    house: House, namespaced: None, level: str
) -> None:
    """Cases 06 and 25: quotes, line breaks and `;` are plain data, byte for byte."""
    words = {"type": "array", "items": {"type": "string", "multiline": True}}
    declared = house.manifest()
    house.manifest(
        parameters=declared["parameters"] | {"words": words},
        isolation=declared.get("isolation", {}) | {"level": level},
    )

    done = await house.run({"record": "stdout"}, *AWKWARD)

    assert recorded(done)["argv"] == ["--", *AWKWARD]


# rule: admission.no-shell
@given(values=st.lists(anything, max_size=5), one=anything, two=anything)
def test_any_text_is_exactly_one_element_no_shell(values: list[str], one: str, two: str) -> None:
    """The number of arguments is the manifest's to say, and never a caller's."""
    text = {"type": "string", "multiline": True}
    it = tool(
        {"values": {"type": "array", "items": text}, "one": text, "two": text},
        ["--one={one}", "--", {"each": "values", "argv": ["{item}"]}, "{one}/{two}"],
        required=["values", "one", "two"],
        env={"ONE": "{one}"},
        stdin={"text": "<{two}>"},
        stage={"a/b": "{one}{two}"},
    )

    asked = admit(it, {"values": values, "one": one, "two": two})

    assert asked.argv == (f"--one={one}", "--", *values, f"{one}/{two}")
    assert asked.env == {"ONE": one}
    assert asked.stdin == f"<{two}>"
    assert asked.stage == {"a/b": one + two}


def test_a_value_that_looks_like_a_template_is_not_filled() -> None:
    """A template is the manifest's. `{secrets.key}` in a value would hand the secret's path out."""
    text = {"type": "string"}
    it = tool({"a": text, "b": text}, ["x{a}", "x{b}"], required=["a", "b"])

    assert admit(it, {"a": "{b}", "b": "{{a}}"}).argv == ("x{b}", "x{{a}}")


def test_braces_written_twice_are_braces() -> None:
    """`--write-out '%{http_code}'` must be sayable."""
    it = tool({"a": {"type": "string"}}, ["%{{code}}={a}"], required=["a"])

    assert admit(it, {"a": "1"}).argv == ("%{code}=1",)


REFUSED = ("sh", "bash", "dash", "zsh-5.9", "bash5.2", "ksh93", "fish", "env", "xargs", "sudo",
           "timeout", "nice", "find", "busybox", "ld-linux-x86-64.so.2", "ld.so", "parallel-3",
           "strace", "systemd-run", "ssh-agent")  # fmt: skip


# rule: admission.no-shell
@pytest.mark.parametrize("name", REFUSED)
def test_a_shell_or_a_wrapper_is_no_command_no_shell(name: str) -> None:
    """Case 25: `sh -c`, `env git push` and `xargs git push` hide what runs from every rule."""
    assert tool(command="git").manifest.command == "git"

    for command in (name, f"/usr/bin/{name}"):
        with pytest.raises(Faulty) as no:
            tool(command=command)

        assert [problem.key for problem in no.value.problems] == ["command"]
        assert "decide" in str(no.value) or "as a program" in str(no.value)


@pytest.mark.parametrize(
    "name", ["git", "curl", "shasum", "shred", "bashful", "environ", "findmnt", "timedatectl",
             "nicer", "sha256sum", "python3", "perl5.36", "ldconfig", "msh", "atq", "x86"]
)  # fmt: skip
def test_a_name_that_only_begins_like_a_shells_is_a_command(name: str) -> None:
    """The allowed twin: a name is compared whole."""
    assert shells.indirection(name) is None
    assert tool(command=name).manifest.command == name


# rule: admission.no-shell
@pytest.mark.parametrize(
    "argv",
    [
        ["-C", "/r", "push"],
        ["--no-pager", "push"],
        ["status;", "rm", "-rf", "x"],
        ["status; rm -rf x"],
        ["LD_PRELOAD=/tmp/x.so", "cat", "f"],
    ],
)
async def test_another_shape_of_a_command_is_its_plain_data_no_shell(
    house: House, argv: list[str]
) -> None:
    """Cases 07 and 25: no position of a word turns it into a verb, an option or a variable."""
    done = await house.run({"record": "stdout"}, *argv)

    assert recorded(done)["argv"] == ["--", *argv]
    assert "LD_PRELOAD" not in recorded(done)["env"]


@pytest.mark.parametrize("words", ["git push", ["git", "push"], {"0": "git"}])
async def test_a_whole_command_line_is_no_parameter(house: House, words: Any) -> None:
    """There is no slot for a command line, so that nothing can be smuggled into one."""
    async with house.open() as executor:
        with pytest.raises(Refused) as no:
            await executor.run(
                house.request(parameters={"plan": "{}", "argv": words, "command": "git"})
            )

    assert no.value.code == "INVALID_PARAMETERS"
    assert "unknown parameter 'argv'" in no.value.because
    assert "unknown parameter 'command'" in no.value.because
