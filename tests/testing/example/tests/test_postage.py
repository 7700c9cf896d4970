import postage
import pytest


@pytest.mark.parametrize(("grams", "cents"), [(1, 85), (20, 85), (21, 185)])
def test_postage(grams, cents):
    assert postage.postage(grams) == cents


def test_nothing_cannot_be_sent():
    with pytest.raises(ValueError, match="weighs something"):
        postage.postage(0)


def test_blocked():
    assert postage.may_send("ana", {"bo"})
    assert not postage.may_send("bo", {"bo"})


def test_label():
    assert postage.label("ana@example.org") == "from ana"


def test_first():
    assert postage.first(["", "ana"]) == "ana"
