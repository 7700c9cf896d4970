"""Postage: what a letter costs, and who may send it."""

RATE = 85
HEAVY = 20


def postage(grams: int) -> int:
    """Give the price in cents."""
    if grams <= 0:
        raise ValueError("a letter weighs something")
    return RATE if grams <= HEAVY else RATE + 100


def may_send(sender: str, blocked: set[str]) -> bool:
    """Say whether somebody may send at all."""
    return bool(sender) and sender not in blocked


def label(sender: str) -> str:
    """Give what is printed on the letter."""
    return "from " + sender.partition("@")[0]


def first(senders: list[str]) -> str:
    """Give the first who said who he is."""
    at = 0
    while not senders[at]:
        at += 1
    return senders[at]
