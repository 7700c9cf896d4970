"""A command is a program in a trusted directory, found once and pinned by its bytes."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from executor.effects.commands import TRUSTED_DIRECTORIES, Commands
from executor.refusal import Refused

PYTHON = next(path for path in ("/usr/bin/python3", "/bin/cat") if os.path.exists(path))
"""Any real program will do for an interpreter: nothing here is run."""


@pytest.fixture(autouse=True)
def _closed_to_others() -> Iterator[None]:
    """Let directories be made as most machines make them, whatever this one does."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    """A trusted directory."""
    path = tmp_path / "bin"
    path.mkdir(mode=0o755)
    path.chmod(0o755)
    return path


@pytest.fixture
def commands(trusted: Path) -> Commands:
    """Trust it, beside the system's own."""
    return Commands((str(trusted), *TRUSTED_DIRECTORIES))


def program(path: Path) -> Path:
    """Put a real program there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(os.path.realpath("/bin/cat"), path)
    path.chmod(0o755)
    return path


def script(path: Path, line: str | bytes = f"#!{PYTHON}\n", mode: int = 0o755) -> Path:
    """Put a script there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((line if isinstance(line, bytes) else line.encode()) + b"print()\n")
    path.chmod(mode)
    return path


def no(commands: Commands, command: str | Path) -> Refused:
    """Pin what must not be pinned."""
    with pytest.raises(Refused) as refused:
        commands.pin(str(command))
    return refused.value


def sha256(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# -- admission.command-pinned ---------------------------------------------------------------------


# rule: admission.command-pinned
def test_a_program_is_pinned_by_its_real_path_and_its_bytes_command_pinned(
    commands: Commands, trusted: Path
) -> None:
    """The approval is for these bytes, whatever name they were asked by."""
    real = program(trusted / "tool-1.2")
    (trusted / "tool").symlink_to("tool-1.2")

    for asked in ("tool", str(trusted / "tool"), f"{trusted}/./x/../tool"):
        pinned = commands.pin(asked)
        (file,) = pinned.files
        assert (file.path, file.real_path) == (str(trusted / "tool"), str(real))
        assert (file.sha256, file.size) == (sha256(real), real.stat().st_size)
        assert pinned.argv(("-x",)) == (str(trusted / "tool"), "-x")


def test_the_first_trusted_directory_that_has_it_wins(trusted: Path, tmp_path: Path) -> None:
    """As in a PATH; what cannot be run is passed over."""
    first = tmp_path / "first"
    program(first / "tool").chmod(0o644)
    program(trusted / "tool")
    commands = Commands((str(first), str(trusted)))
    assert commands.find("tool") == str(trusted / "tool")

    (first / "tool").chmod(0o755)

    assert commands.find("tool") == str(first / "tool")


# rule: admission.command-pinned
def test_a_program_elsewhere_is_refused_command_pinned(
    commands: Commands, trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that anybody fills is no place to find a program in."""
    elsewhere = program(tmp_path / "elsewhere" / "tool")
    beside = program(tmp_path / "bin-evil" / "tool")
    inside = program(trusted / "sub" / "tool")
    monkeypatch.setenv("PATH", str(elsewhere.parent))
    monkeypatch.chdir(elsewhere.parent)
    assert commands.pin(str(inside)).files[0].real_path == str(inside)

    for path in (elsewhere, beside, f"{trusted}/../elsewhere/tool", f"/{elsewhere}"):
        refused = no(commands, path)
        assert (refused.rule, refused.code) == (
            "admission.command-pinned",
            "COMMAND_NOT_TRUSTED",
        )
        assert "trusted" in refused.todo
    assert no(commands, "tool").code == "COMMAND_NOT_FOUND"  # neither PATH nor here is looked at


# rule: admission.command-pinned
@pytest.mark.parametrize("name", ["./tool", "sub/tool", "../bin/tool", "../elsewhere/tool"])
def test_a_relative_path_is_no_name_command_pinned(
    commands: Commands, trusted: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From where? Each directory gives another answer."""
    program(trusted / "tool")
    program(trusted / "sub" / "tool")
    program(trusted.parent / "elsewhere" / "tool")
    monkeypatch.chdir(trusted)
    assert commands.pin("tool")

    assert no(commands, name).code == "COMMAND_NOT_TRUSTED"


# rule: admission.command-pinned
@pytest.mark.parametrize(
    "name", ["missing", "", ".", "..", "tool\0", "directory", "plain", "broken"]
)
def test_what_is_no_executable_file_is_not_found_command_pinned(
    commands: Commands, trusted: Path, name: str
) -> None:
    """A name that leads nowhere is refused before anything is asked of anybody."""
    (trusted / "directory").mkdir()
    program(trusted / "plain").chmod(0o644)
    (trusted / "broken").symlink_to("nowhere")
    program(trusted / "tool")
    assert commands.pin("tool")

    refused = no(commands, name)

    assert (refused.rule, refused.code) == ("admission.command-pinned", "COMMAND_NOT_FOUND")


# rule: admission.command-pinned
@pytest.mark.parametrize("mode", [0o757, 0o775, 0o777])
@pytest.mark.parametrize(
    "where", ["file", "directory", "around", "of the link", "around the link", "of a middle link"]
)
def test_what_others_can_write_is_refused_command_pinned(
    trusted: Path, tmp_path: Path, where: str, mode: int
) -> None:
    """What others can replace between two looks is theirs, wherever on the way it can be done."""
    real = program(tmp_path / "a" / "b" / "tool")
    middle = tmp_path / "m" / "n"
    middle.mkdir(parents=True)
    (middle / "tool").symlink_to(real)
    links = tmp_path / "l" / "bin"
    links.mkdir(parents=True)
    (links / "tool").symlink_to(middle / "tool")
    commands = Commands((str(links), *TRUSTED_DIRECTORIES))
    for path in (real.parent, real.parent.parent, middle, middle.parent, links, links.parent):
        path.chmod(0o755)
    tmp_path.chmod(0o755)
    assert commands.pin("tool").files[0].real_path == str(real)

    at = {
        "file": real,
        "directory": real.parent,
        "around": real.parent.parent,
        "of the link": links,
        "around the link": links.parent,
        "of a middle link": middle,
    }[where]
    at.chmod(mode)

    refused = no(commands, "tool")
    assert (refused.rule, refused.code) == ("admission.command-pinned", "COMMAND_NOT_TRUSTED")
    assert f"{at} can be changed by others" in refused.because
    at.chmod(0o755)
    assert commands.pin("tool")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("at", ["tool", "."])
def test_what_another_user_owns_is_refused_command_pinned(
    commands: Commands, trusted: Path, at: str
) -> None:
    """An owner can change a file at any time, whatever its mode says now."""
    program(trusted / "tool")
    assert commands.pin("tool")

    os.chown(trusted / at, 12345, -1)

    refused = no(commands, "tool")
    assert (refused.rule, refused.code) == ("admission.command-pinned", "COMMAND_NOT_TRUSTED")


# rule: admission.command-pinned
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("where", ["file", "directory", "around"])
def test_what_belongs_to_somebody_else_is_refused_command_pinned(
    commands: Commands, trusted: Path, where: str
) -> None:
    """An owner can write what its mode forbids: they have only to change the mode."""
    real = program(trusted / "sub" / "tool")
    assert commands.pin(str(real))

    at = {"file": real, "directory": real.parent, "around": trusted}[where]
    os.chown(at, 65534, -1)

    refused = no(commands, real)
    assert (refused.rule, refused.code) == ("admission.command-pinned", "COMMAND_NOT_TRUSTED")
    assert f"{at} can be changed by others" in refused.because


def test_a_directory_in_which_nobody_can_touch_anothers_files_may_be_around_it(
    commands: Commands, trusted: Path
) -> None:
    """The allowed twin: below /tmp a directory of one's own is one's own."""
    program(trusted / "tool")
    trusted.parent.chmod(0o1777)
    assert commands.pin("tool")

    trusted.chmod(0o1777)  # but in it anybody could add a name

    assert no(commands, "tool").code == "COMMAND_NOT_TRUSTED"


def test_a_link_that_turns_in_a_circle_ends(commands: Commands, trusted: Path) -> None:
    """No shape of a directory tree may hang the gate."""
    (trusted / "a").symlink_to("b")
    (trusted / "b").symlink_to("a")

    assert no(commands, "a").code == "COMMAND_NOT_FOUND"


def test_a_named_pipe_is_no_command_and_blocks_nothing(commands: Commands, trusted: Path) -> None:
    """To open a pipe is to wait for somebody."""
    os.mkfifo(trusted / "pipe", 0o755)

    assert no(commands, "pipe").code == "COMMAND_NOT_FOUND"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_program_that_cannot_be_read_cannot_be_pinned_command_pinned(
    commands: Commands, trusted: Path
) -> None:
    """What cannot be hashed cannot be approved."""
    program(trusted / "tool").chmod(0o711)

    assert "cannot be read" in no(commands, "tool").because


def test_trusted_directories_do_not_move_with_the_current_one(
    trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`trusted=["bin"]` means the directory that is called so now."""
    program(trusted / "tool")
    monkeypatch.chdir(trusted.parent)
    commands = Commands(("bin",))

    monkeypatch.chdir("/")

    assert commands.pin("tool").argv(()) == (str(trusted / "tool"),)


# rule: admission.command-pinned
def test_a_program_that_was_replaced_has_another_pin_command_pinned(
    commands: Commands, trusted: Path
) -> None:
    """Kept digests save work; a file of the same name, size and time is still another file."""
    tool = program(trusted / "tool")
    before = commands.pin("tool")
    assert commands.pin("tool") == before
    times = (tool.stat().st_atime_ns, tool.stat().st_mtime_ns)

    changed = tool.read_bytes()[:-1] + b"!"
    other = trusted / "other"
    other.write_bytes(changed)
    other.chmod(0o755)
    os.utime(other, ns=times)
    other.rename(tool)

    after = commands.pin("tool")
    assert after.files[0].sha256 == hashlib.sha256(changed).hexdigest()
    assert after != before
    assert after.files[0].size == before.files[0].size


# -- admission.script-pinned ----------------------------------------------------------------------


# rule: admission.script-pinned
@pytest.mark.parametrize(
    ("line", "argument"),
    [
        (f"#!{PYTHON}\n", ()),
        (f"#! {PYTHON} \n", ()),
        (f"#!\t{PYTHON}\t-I\n", ("-I",)),
        (f"#!{PYTHON} -I -S\n", ("-I -S",)),
        ("#!/bin/sh\n", ()),
        ("#!/bin/bash -e\n", ("-e",)),
    ],
)
def test_a_script_is_pinned_with_its_interpreter_script_pinned(
    commands: Commands, trusted: Path, line: str, argument: tuple[str, ...]
) -> None:
    """The interpreter decides what the script's bytes mean; the kernel gives it one argument."""
    path = script(trusted / "tool", line)

    pinned = commands.pin("tool")

    interpreter, pinned_script = pinned.files
    assert interpreter.path == line.removeprefix("#!").split()[0]
    assert interpreter.sha256 == sha256(os.path.realpath(interpreter.path))
    assert (pinned_script.path, pinned_script.sha256) == (str(path), sha256(path))
    assert pinned.argv(("x",)) == (interpreter.path, *argument, str(path), "x")


# rule: admission.script-pinned
def test_env_is_looked_through_to_the_interpreter_in_a_trusted_directory_script_pinned(
    commands: Commands, trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`#!/usr/bin/env name` asks the PATH of whoever runs it; here only trusted places answer."""
    script(trusted / "tool", "#!/usr/bin/env interpreter\n")
    evil = program(tmp_path / "evil" / "interpreter")
    monkeypatch.setenv("PATH", str(evil.parent))
    assert no(commands, "tool").code == "COMMAND_NOT_FOUND"

    program(trusted / "interpreter")

    assert commands.pin("tool").argv(()) == (str(trusted / "interpreter"), str(trusted / "tool"))


# rule: admission.script-pinned
@pytest.mark.parametrize(
    "line",
    [
        "#!/usr/bin/env -S python3 -I\n",
        "#!/usr/bin/env -i python3\n",
        "#!/usr/bin/env A=b python3\n",
        "#!/usr/bin/env A=b\n",
        "#!/usr/bin/env\n",
        "#!/usr/bin/env python3 -I\n",
        "#!/usr/bin/xargs python3\n",
        "#!/usr/bin/timeout 5\n",
        "#!/usr/bin/nice python3\n",
        "#!runner\n",
        "#!bin/runner\n",
        "#!\n",
        "#! \n",
        f"#!{PYTHON} {'x' * 253}\n",
        f"#!{' ' * 5000}{PYTHON}\n",
        "no line at all\n",
        "\x7fEL\n",
        "",
    ],
)
def test_an_interpreter_that_is_not_sure_is_refused_script_pinned(
    commands: Commands, trusted: Path, line: str
) -> None:
    """Whatever decides later which program reads the script has not been pinned."""
    program(trusted / "runner")
    script(trusted / "tool")
    assert len(commands.pin("tool").files) == 2

    script(trusted / "tool", line)

    refused = no(commands, "tool")
    assert (refused.rule, refused.code) == ("admission.script-pinned", "COMMAND_NOT_PINNABLE")
    assert refused.todo.endswith(".")


def test_a_line_without_an_end_is_refused_script_pinned(commands: Commands, trusted: Path) -> None:
    """Where the line ends decides what the interpreter is called."""
    path = script(trusted / "tool")
    path.write_text(f"#!{PYTHON}")

    assert no(commands, "tool").code == "COMMAND_NOT_PINNABLE"


def test_the_longest_line_that_the_kernel_reads_is_read_whole(
    commands: Commands, trusted: Path
) -> None:
    """One byte more and the kernel cuts it off: what we would run is not what it would."""
    room = 253 - len(f"{PYTHON} ")
    script(trusted / "tool", f"#!{PYTHON} {'x' * room}\n")
    assert commands.pin("tool").prefix[0] == "x" * room

    script(trusted / "tool", f"#!{PYTHON} {'x' * (room + 1)}\n")

    assert no(commands, "tool").code == "COMMAND_NOT_PINNABLE"


@pytest.mark.parametrize("line", [f"#!{PYTHON}\r\n", f"#!{PYTHON}\xa0-I\n", "#!/tmp/x\0\n"])
def test_a_line_is_read_as_the_kernel_reads_it(
    commands: Commands, trusted: Path, line: str
) -> None:
    """Only blanks and tabs part its words; a CR is the last letter of a name nobody has."""
    script(trusted / "tool", line)

    assert no(commands, "tool").code in ("COMMAND_NOT_FOUND", "COMMAND_NOT_TRUSTED")


# rule: admission.script-pinned
def test_a_script_that_is_run_by_a_script_is_refused_script_pinned(
    commands: Commands, trusted: Path
) -> None:
    """Three files would have to be pinned, and Linux itself stops at some depth."""
    script(trusted / "inner")
    script(trusted / "tool", f"#!{trusted}/inner\n")
    assert commands.pin("inner")

    refused = no(commands, "tool")

    assert (refused.rule, refused.code) == ("admission.script-pinned", "COMMAND_NOT_PINNABLE")
    assert "no program itself" in refused.because


# rule: admission.script-pinned
def test_env_does_not_lead_out_of_the_trusted_directories_script_pinned(
    commands: Commands, trusted: Path, tmp_path: Path
) -> None:
    """`env ../x` is a path, and not a name that is looked up."""
    program(tmp_path / "interpreter")
    script(trusted / "tool", "#!/usr/bin/env ../interpreter\n")

    assert no(commands, "tool").code == "COMMAND_NOT_TRUSTED"


def test_a_wrapper_under_another_name_is_no_interpreter_script_pinned(
    commands: Commands, trusted: Path
) -> None:
    """A link called `runner` to `env` is `env`."""
    program(trusted / "env")
    (trusted / "runner").symlink_to("env")
    script(trusted / "tool", f"#!{trusted}/runner x\n")

    assert no(commands, "tool").rule == "admission.script-pinned"


# rule: admission.script-pinned
def test_an_interpreter_that_others_can_write_is_refused_script_pinned(
    commands: Commands, trusted: Path
) -> None:
    """The interpreter is half of the command."""
    interpreter = program(trusted / "interpreter")
    script(trusted / "tool", f"#!{interpreter}\n")
    assert commands.pin("tool")

    interpreter.chmod(0o777)

    assert no(commands, "tool").code == "COMMAND_NOT_TRUSTED"


# -- admission.no-shell, behind other names -------------------------------------------------------


# rule: admission.no-shell
@pytest.mark.parametrize("name", ["sh", "bash-5.2", "env", "xargs", "sudo", "ld-linux-x86-64.so.2"])
def test_a_shell_or_wrapper_is_refused_behind_a_link_of_another_name_no_shell(
    commands: Commands, trusted: Path, tmp_path: Path, name: str
) -> None:
    """The name in the manifest says `deploy`; the program is a shell all the same."""
    real = program(tmp_path / "lib" / name)
    (trusted / "deploy").symlink_to(real)

    refused = no(commands, "deploy")
    assert (refused.rule, refused.code) == ("admission.no-shell", "COMMAND_NOT_PINNABLE")

    (trusted / "deploy").unlink()
    (trusted / "deploy").symlink_to(program(tmp_path / "lib" / f"my{name}x"))
    assert commands.pin("deploy")


def test_a_shell_that_is_named_in_a_trusted_directory_is_refused_no_shell(
    commands: Commands, trusted: Path
) -> None:
    """A link called `sh` to something harmless is not harmless tomorrow."""
    (trusted / "bash").symlink_to(program(trusted / "harmless"))

    assert no(commands, "bash").rule == "admission.no-shell"
    assert no(commands, "sh").rule == "admission.no-shell"


def test_a_program_of_many_names_is_the_one_it_is_called_by_no_shell(
    commands: Commands, trusted: Path
) -> None:
    """On small systems every command is busybox; its name says which, and its bytes are pinned."""
    program(trusted / "busybox")
    for name in ("wget", "sh", "env"):
        (trusted / name).symlink_to("busybox")
    script(trusted / "tool", f"#!{trusted}/sh\n")

    assert commands.pin("wget").argv(()) == (str(trusted / "wget"),)
    assert len(commands.pin("tool").files) == 2
    for name in ("sh", "env", "busybox"):
        assert no(commands, name).rule == "admission.no-shell"


# -- admission.no-shims ---------------------------------------------------------------------------


def _shims(home: Path) -> dict[str, tuple[Path, Path]]:
    """Build what version managers put in a PATH: (the shim, the program behind it)."""
    bash = "#!/bin/bash\nset -e\n"

    def behind(*steps: str) -> Path:
        return program(home.joinpath(*steps))

    def link(path: Path, target: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return path

    pyenv = script(
        home / ".pyenv" / "shims" / "tool",
        f'{bash}program="${{0##*/}}"\nexec "{home}/.pyenv/libexec/pyenv" exec "$program" "$@"\n',
    )
    asdf = script(home / ".asdf" / "shims" / "tool", f'{bash}exec asdf exec "tool" "$@"\n')
    mise = link(home / "share" / "mise" / "shims" / "tool", behind("mise-1", "mise"))
    volta = link(home / ".volta" / "bin" / "tool", behind("opt", "volta-shim"))
    moved_volta = link(home / "volta2" / "tool", behind("opt2", "volta-shim"))
    rustup = link(home / "rust" / "cargo-x", behind("rust", "rustup"))
    (home / ".cargo" / "bin").mkdir(parents=True)
    hard = home / ".cargo" / "bin" / "cargo"
    os.link(behind(".cargo", "bin", "rustup"), hard)
    copied = script(home / "bin" / "tool", f'{bash}exec "/opt/pyenv/bin/pyenv" exec tool "$@"\n')
    snap = link(home / "snap" / "tool", behind("usr", "snap"))
    ccache = link(home / "ccache" / "gcc", behind("usr", "ccache"))
    return {
        "pyenv": (pyenv, behind(".pyenv", "versions", "3.12.1", "bin", "tool")),
        "asdf": (asdf, behind(".asdf", "installs", "node", "22", "bin", "tool")),
        "mise": (mise, behind("share", "mise", "installs", "node", "22", "tool")),
        "volta": (volta, behind(".volta", "tools", "image", "node", "22", "bin", "tool")),
        "volta elsewhere": (moved_volta, behind("volta2", "real", "tool")),
        "rustup": (rustup, behind(".rustup", "toolchains", "stable", "bin", "cargo")),
        "rustup by hard link": (hard, behind(".cargo", "bin", "ripgrep")),
        "a shim that was copied": (copied, behind("bin2", "tool")),
        "snap": (snap, behind("snap2", "tool")),
        "ccache": (ccache, behind("gcc", "gcc")),
    }


# rule: admission.no-shims
@pytest.mark.parametrize(
    "manager",
    ["pyenv", "asdf", "mise", "volta", "volta elsewhere", "rustup", "rustup by hard link",
     "a shim that was copied", "snap", "ccache"],
)  # fmt: skip
def test_a_shim_is_refused_and_the_program_behind_it_is_not_no_shims(
    tmp_path: Path, manager: str
) -> None:
    """Pinning a shim pins nothing: it asks a file in the current directory what to run."""
    shim, behind = _shims(tmp_path / "home")[manager]
    commands = Commands((str(tmp_path / "home"), *TRUSTED_DIRECTORIES))
    assert commands.pin(str(behind)).files[0].real_path == str(behind)

    refused = no(commands, shim)

    assert refused.code == "COMMAND_NOT_PINNABLE"
    assert refused.rule in ("admission.no-shims", "admission.no-shell")
    assert "behind it" in refused.todo


# rule: admission.no-shims
def test_a_shim_as_an_interpreter_is_refused_no_shims(tmp_path: Path) -> None:
    """`#!/usr/bin/env python3` with pyenv in a trusted directory finds a shim."""
    home = tmp_path / "home"
    _shims(home)
    tool = script(home / "tool.py", f"#!{home}/.pyenv/versions/3.12.1/bin/tool\n")
    commands = Commands((str(home), *TRUSTED_DIRECTORIES))
    assert len(commands.pin(str(tool)).files) == 2

    script(tool, f"#!{home}/.pyenv/shims/tool\n")

    refused = no(commands, tool)
    assert (refused.rule, refused.code) == ("admission.no-shims", "COMMAND_NOT_PINNABLE")


def test_a_script_that_only_speaks_of_a_manager_is_no_shim(
    commands: Commands, trusted: Path
) -> None:
    """The allowed twin: `# installed by pyenv` runs nothing."""
    script(trusted / "tool", "#!/bin/sh\n# installed by pyenv, which can exec things\necho asdf\n")

    assert len(commands.pin("tool").files) == 2
