"""Reading of what the door sends: JSON whose fields have the documented types, or a ProtocolError.

Nothing that arrives raises anything else: whatever the bytes, the result is a value or a
:class:`~fairbell.errors.ProtocolError` that names the field. Decimals stay exact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from .errors import ProtocolError

__all__ = [
    "Number",
    "array",
    "boolean",
    "decimal",
    "decimal_text",
    "integer",
    "mapping",
    "optional_decimal",
    "optional_text",
    "parse",
    "text",
]

Number = Decimal | int | str
"""What a price or a quantity may be given as. Floats are refused: they are not exact."""

# Digits of a decimal at most, and its form: no exponent.
_DECIMAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,20})?", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,20}", re.ASCII)


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def parse(raw: str | bytes) -> dict[str, Any]:
    """The JSON object in a message."""
    try:
        value = json.loads(raw, parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise ProtocolError(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"JSON, but no object: {type(value).__name__}")
    return value


def _wrong(field: str, value: object, due: str) -> ProtocolError:
    shown = repr(value)
    return ProtocolError(f"{field}: {due} expected, got {shown[:80]}")


def text(of: Mapping[str, Any], field: str) -> str:
    """A text."""
    value = of.get(field)
    if not isinstance(value, str):
        raise _wrong(field, value, "a text")
    return value


def optional_text(of: Mapping[str, Any], field: str) -> str | None:
    """A text or nothing."""
    return None if of.get(field) is None else text(of, field)


def integer(of: Mapping[str, Any], field: str) -> int:
    """A whole number of 0 and above, as a JSON number or in a text."""
    value = of.get(field)
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(field, value, "a whole number")
    return value


def boolean(of: Mapping[str, Any], field: str) -> bool:
    """True or false; missing is false."""
    value = of.get(field, False)
    if not isinstance(value, bool):
        raise _wrong(field, value, "true or false")
    return value


def mapping(of: Mapping[str, Any], field: str) -> dict[str, Any]:
    """An object."""
    value = of.get(field)
    if not isinstance(value, dict):
        raise _wrong(field, value, "an object")
    return value


def array(of: Mapping[str, Any], field: str) -> list[Any]:
    """A list."""
    value = of.get(field)
    if not isinstance(value, list):
        raise _wrong(field, value, "a list")
    return value


def as_decimal(value: object, field: str) -> Decimal:
    """A decimal in a text, with the digits that it is written with."""
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
        raise _wrong(field, value, "a decimal in a text")
    return Decimal(value)


def decimal(of: Mapping[str, Any], field: str) -> Decimal:
    """A decimal in a text."""
    return as_decimal(of.get(field), field)


def optional_decimal(of: Mapping[str, Any], field: str) -> Decimal | None:
    """A decimal in a text, or nothing."""
    return None if of.get(field) is None else decimal(of, field)


def decimal_text(value: Number, name: str) -> str:
    """A price or a quantity of the caller's as the door reads it: digits and a point, no exponent."""
    if isinstance(value, bool) or not isinstance(value, Decimal | int | str):
        kind = type(value).__name__
        raise TypeError(f"{name}: give a Decimal, an int or a str, not {kind}: floats are not exact")
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            raise ValueError(f"{name}: {value!r} is no decimal like 78000.25")
        return value
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError(f"{name}: {value!r} is not finite")
    if not -40 <= number.adjusted() <= 40:
        raise ValueError(f"{name}: {value!r} is out of range")
    shown = format(number, "f")
    # 1.50000 is 1.5: the door counts places.
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
