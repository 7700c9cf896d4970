"""A secret leaves no part of itself in what is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor.rules.spawning import mask, spellings

A, B = b"hunter2-hunter2", b"swordfish"


# rule: spawning.secrets
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"nothing of it", b"nothing of it"),
        (b"", b""),
        (A, b"[secret]"),
        (b"<" + A + b">", b"<[secret]>"),
        (A + B, b"[secret][secret]"),
        (A + b" " + A, b"[secret] [secret]"),
        (b"\xff" + B + b"\xff", b"\xff[secret]\xff"),
        (A[:-1], A[:-1]),  # whole output: the text ends so by itself
    ],
)
def test_secrets_are_masked_wherever_they_stand(text: bytes, shown: bytes) -> None:
    """Output goes to receipts, logs and models."""
    assert mask(text, [A, B], truncated=False) == shown


# rule: spawning.secrets
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"x" + A[:-1], b"x[secret]"),
        (b"x" + A[:4], b"x[secret]"),
        (b"x" + A[:3], b"x" + A[:3]),
        (A, b"[secret]"),
        (b"x" + B[1:], b"x" + B[1:]),
    ],
)
def test_secrets_are_masked_where_the_limit_cut_them(text: bytes, shown: bytes) -> None:
    """The limit of the output must not be the way to half a password."""
    assert mask(text, [B, A], truncated=True) == shown


# rule: spawning.secrets
def test_secrets_that_overlap_are_masked_as_one() -> None:
    """Taken one after the other, what is left of the second would stand there."""
    assert mask(b"-abcdefgh-", [b"abcdef", b"defgh"], truncated=False) == b"-[secret]-"
    assert mask(b"-abababab-", [b"ababab"], truncated=False) == b"-[secret]-"
    assert mask(b"-abcdef-", [b"bcde", b"abcdef"], truncated=False) == b"-[secret]-"
    assert mask(b"-xabcd", [b"abcdxyz", b"-xab"], truncated=True) == b"[secret]"


# rule: spawning.secrets
@pytest.mark.parametrize(
    "shown",
    [
        b'x "y\xc3\xa9"\nhunter22\nz',
        b'x \\"y\\u00e9\\"\\nhunter22\\nz',
        b'x \\"y\xc3\xa9\\"\\nhunter22\\nz',
        b"x%20%22y%C3%A9%22%0Ahunter22%0Az",
        b"hunter22",
        b'x "y\xc3\xa9"',
    ],
)
def test_secrets_are_masked_as_json_and_urls_write_them_and_by_line(shown: bytes) -> None:
    """Commands print what they send, and complain about the one line that is wrong."""
    secret = 'x "yé"\nhunter22\nz'

    assert mask(b"<" + shown + b">", spellings(secret), truncated=False) == b"<[secret]>"
    assert mask(b"z", spellings(secret), truncated=False) == b"z"


# rule: spawning.secrets
@given(
    st.lists(st.binary(min_size=4, max_size=9), min_size=1, max_size=4),
    st.data(),
)
def test_secrets_masked_leave_all_the_rest_as_it_was(
    secrets: list[bytes], data: st.DataObject
) -> None:
    """No secret stands in it afterwards, and no other byte is lost."""
    rest = st.binary(max_size=6).map(lambda some: bytes(byte | 0x80 for byte in some))
    secrets = [bytes(byte & 0x1F for byte in secret) for secret in secrets]
    between = data.draw(st.lists(rest, min_size=1, max_size=6))
    chosen = data.draw(
        st.lists(st.sampled_from(secrets), min_size=len(between) - 1, max_size=len(between) - 1)
    )
    text = b"".join(a + b for a, b in zip(between, [*chosen, b""], strict=True))

    shown = mask(text, secrets, truncated=False)

    assert not any(secret in shown for secret in secrets)
    assert shown.replace(b"[secret]", b"") == b"".join(between)


# rule: spawning.secrets
@pytest.mark.parametrize(
    "said",
    [
        b"Authorization: Basic YW5hOmh1bnRlcjItaHVudGVyMg==",
        b"AUTH PLAIN AGFuYQBodW50ZXIyLWh1bnRlcjI=",
        b"535 bad password: hunter2-hunter2",
        b"535 bad password: aHVudGVyMi1odW50ZXIy",
    ],
)
def test_secrets_of_a_login_are_masked_as_protocols_write_them(said: bytes) -> None:
    """A server that echoes what it was sent would otherwise put a password into a log."""
    shown = mask(said, spellings("ana:hunter2-hunter2"), truncated=False)

    assert b"[secret]" in shown
    for part in (b"hunter2", b"aHVudGVyMi", b"odW50ZXIy", b"BodW50"):
        assert part not in shown
