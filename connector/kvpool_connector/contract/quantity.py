"""Kubernetes quantities without decimals, as the API accepts them: `20Gi`, `512Mi`, `1073741824`."""

import re

PATTERN = r"^[1-9][0-9]*(Ki|Mi|Gi|Ti)?$"
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def parse_quantity(text: str) -> int:
    """Bytes of a quantity string.

    Raises ValueError for anything the API would refuse, decimal units among them: stores count in 1024.
    """
    if not re.match(PATTERN, text):
        raise ValueError(f"{text!r} is not a size: write a whole number with Ki, Mi, Gi or Ti, such as 20Gi")
    unit = text[-2:]
    return int(text[:-2]) * _UNITS[unit] if unit in _UNITS else int(text)


def format_quantity(size: int) -> str:
    """The shortest exact spelling of a number of bytes: 21474836480 is `20Gi`."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)
