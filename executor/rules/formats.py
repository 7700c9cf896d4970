"""Formats: texts that more than one program reads. Accepted is what all of them read alike.

A closed set, each really checked. A text that one program takes for a host and the next for an
option, for two addresses or for another host is refused, although some standard may allow it.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from ipaddress import IPv4Address, IPv6Address
from typing import Any

_DEFAULT_PORTS = {
    "git": 9418, "http": 80, "https": 443, "smtp": 25, "smtps": 465, "ssh": 22,
}  # fmt: skip
_LABEL = r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL_PART = re.compile(rf"(?=.{{1,64}}\Z){_ATOM}(?:\.{_ATOM})*")
_SIGN = r"(?:[!$&'()*+,;=._~A-Za-z0-9-]|%[0-9A-Fa-f]{2})"
_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    rf"(?:(?!-){_SIGN}+@)?"  # a user, but no password
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9.-]+))"
    r"(?::(?P<port>[0-9]{1,5}))?"
    rf"(?:[/?#](?:{_SIGN}|[:@/?#\[\]])*)?"
)
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:[0-9]+|\[[0-9A-Fa-f:.]+\]:[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def is_email(text: str) -> bool:
    """One bare address, ``local@domain``, that no mail program can read as two or as a name."""
    local, at, domain = text.rpartition("@")
    return bool(at and _LOCAL_PART.fullmatch(local) and is_hostname(domain))


def is_uri(text: str) -> bool:
    """An absolute URI with a host and without a password, which would stand in the open."""
    return _split(text) is not None


def is_hostname(text: str) -> bool:
    """A host name of RFC 1123; numbers only as four of them, for 127.1 is 127.0.0.1 to some."""
    if not _HOST_NAME.fullmatch(text):
        return False
    return not _NUMBER.fullmatch(text.rpartition(".")[2]) or is_ipv4(text)


def is_ipv4(text: str) -> bool:
    """Four decimal numbers."""
    return _parses(IPv4Address, text)


def is_ipv6(text: str) -> bool:
    """An address without a zone, which means another thing on each machine."""
    return "%" not in text and _parses(IPv6Address, text)


def is_date(text: str) -> bool:
    """A day that exists, ``2026-11-30``."""
    return bool(_DATE.fullmatch(text)) and _parses(date.fromisoformat, text)


def is_date_time(text: str) -> bool:
    """An instant of RFC 3339, ``2026-11-30T10:00:00Z``; without its zone it would be none."""
    return bool(_DATE_TIME.fullmatch(text)) and _parses(datetime.fromisoformat, text.upper())


def is_uuid(text: str) -> bool:
    """A UUID in its one usual form."""
    return bool(_UUID.fullmatch(text))


FORMATS: Mapping[str, Callable[[str], bool]] = {
    "email": is_email,
    "uri": is_uri,
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "date": is_date,
    "date-time": is_date_time,
    "uuid": is_uuid,
}


def host_and_port(text: str) -> tuple[str, int] | None:
    """Give what a URL or ``host:port`` names, or ``None`` when it names no host and port."""
    split = _split(f"tcp://{text}" if _HOST_AND_PORT.fullmatch(text) else text)
    if split is None:
        return None
    scheme, host, port = split
    port = port or _DEFAULT_PORTS.get(scheme)
    return None if port is None else (host, port)


def _split(text: str) -> tuple[str, str, int | None] | None:
    """Give scheme, host and port of a URI."""
    found = _URI.fullmatch(text)
    if found is None:
        return None
    host = found["six"] or found["name"]
    port = None if found["port"] is None else int(found["port"])
    if not (is_ipv6(host) if found["six"] else is_hostname(host)):
        return None
    if port is not None and not 1 <= port <= 65535:
        return None
    return found["scheme"].lower(), host.lower(), port


def _parses(parse: Callable[[str], Any], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True
