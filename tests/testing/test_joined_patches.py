"""A null in a scenario removes what stands below it, of the spec or of the tool itself."""

from executor.testing.merging import joined, merged


def test_a_null_takes_back_what_the_patch_before_it_says() -> None:
    """A control puts one fact right by taking the fault back."""
    scenario = {"commands": {"post": {"then": {"exit": 1}, "stdout": "id=m-1"}}}

    assert joined(scenario, {"commands": {"post": {}}}) == scenario
    assert joined(scenario, {"commands": {"post": {"then": None}}}) == {
        "commands": {"post": {"stdout": "id=m-1"}}
    }


def test_a_null_about_which_nothing_was_said_still_removes_from_what_it_is_for() -> None:
    """Dropped, it would leave the account of the usual tool in a scenario about having none."""
    tool = {"account": "post", "argv": []}
    assert merged(tool, joined({}, {"argv": ["a"]})) == {"account": "post", "argv": ["a"]}

    patch = joined({"argv": ["a"]}, {"account": None})

    assert patch == {"argv": ["a"], "account": None}
    assert merged(tool, patch) == {"argv": ["a"]}
