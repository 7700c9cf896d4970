"""Window: for how long a delivery blocks, and who says so."""

import pytest

from executor.refusal import Refused
from executor.rules.ledger import DEFAULT_WINDOW_S, Terms, claim, window
from tests.ledger.attempts import START, attempt, later, manifest, wanted

PLAIN, OWN = manifest(), manifest(ledger={"window": "2 min"})
OFF = manifest(ledger={"window": "0 s"})


# rule: ledger.window
def test_a_delivery_blocks_for_a_quarter_of_an_hour_unless_somebody_says_otherwise() -> None:
    """Long enough for every retry of a caller that lost its answer."""
    assert DEFAULT_WINDOW_S == 15 * 60
    assert Terms().window == DEFAULT_WINDOW_S

    delivered = [attempt("a-1", "delivered")]
    with pytest.raises(Refused):
        claim(wanted(), delivered, Terms(), later(DEFAULT_WINDOW_S - 0.001))
    assert claim(wanted(), delivered, Terms(), later(DEFAULT_WINDOW_S))


# rule: ledger.window
def test_the_environment_outranks_the_manifest_and_that_the_configuration() -> None:
    """Who runs it decides last; who wrote the tool knows it better than the house."""
    assert window(PLAIN, 900.0, None) == 900.0
    assert window(OWN, 900.0, None) == 120.0
    assert window(PLAIN, 900.0, 5.0) == 5.0
    assert window(OWN, 900.0, 5.0) == 5.0


# rule: ledger.window
def test_zero_is_said_and_not_nothing_said() -> None:
    """A 0 that is taken for "unset" blocks what somebody switched off on purpose."""
    assert window(OFF, 900.0, None) == 0
    assert window(OWN, 900.0, 0.0) == 0
    assert window(PLAIN, 0.0, None) == 0


# rule: ledger.window
def test_zero_switches_off_what_a_delivery_blocks_and_nothing_else() -> None:
    """What is on its way, or may have happened, is another matter."""
    off = Terms(window=0)
    assert claim(wanted(), [attempt("a-1", "delivered")], off, START)

    for state, code in (
        ("dispatching", "DUPLICATE_IN_FLIGHT"),
        ("unresolved", "DUPLICATE_UNRESOLVED"),
    ):
        with pytest.raises(Refused) as no:
            claim(wanted(), [attempt("a-1", state)], off, START)  # type: ignore[arg-type]
        assert no.value.code == code
