"""Chinese numerals in digits, as people write them: large round numbers keep their 万 and 亿."""

import re

_VALUES = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "幺": 1}
_UNITS = {"十": 10, "百": 100, "千": 1000}
NUMERALS = "".join(_VALUES) + "十百千万亿"
_RANGE = re.compile("[一二两三四五六七八九]{2}[十百千万亿]")


def number(text: str) -> str | None:
    """A number in digits, as 13800138000, 3.14, 3251, 500万, 3.5万 or 1亿3000万; None where it is none."""
    if len(text) > 1 and text[-1] == "两":  # a weight: 三百两
        return None
    whole, point, decimals = text.partition("点")
    written = positional(whole) if all(char in _VALUES for char in whole) else _with_units(whole)
    return written and written + ("." + positional(decimals) if point else "")


def positional(text: str) -> str:
    """Each digit's numeral as that digit; the rest as it is."""
    return "".join(str(_VALUES.get(char, char)) for char in text)


def _with_units(text: str) -> str | None:
    value = None if _RANGE.search(text) else _value(text)
    if value is None:
        return None
    ten_thousands, rest = divmod(value, 10_000)
    if rest == 0 and ten_thousands:
        hundred_millions, ten_thousands = divmod(ten_thousands, 10_000)
        if hundred_millions >= 10_000 and hundred_millions % 10_000 == 0 and not ten_thousands:
            return f"{hundred_millions // 10_000}万亿"
        return (f"{hundred_millions}亿" if hundred_millions else "") + (f"{ten_thousands}万" if ten_thousands else "")
    if text[-2:-1] == "万" and rest % 1000 == 0 and value < 10**8:  # 三万五
        return f"{value // 10_000}.{rest // 1000}万"
    return str(value)


def _value(text: str) -> int | None:
    """What a number with units amounts to."""
    for unit, size in (("亿", 10**8), ("万", 10**4)):
        before, found, after = text.rpartition(unit)
        if found:
            large = None if unit in before else _value(before)
            shortened = len(after) == 1 and after in _VALUES  # 三万五 is 35000
            small = _VALUES[after] * size // 10 if shortened else _value(after) if after else 0
            return None if large is None or small is None else large * size + small
    return _below_ten_thousand(text)


def _below_ten_thousand(text: str) -> int | None:
    total, digit, size, zero = 0, 0, 10_000, False
    for char in text:
        if char in _UNITS:
            unit = _UNITS[char]
            if unit >= size or not (digit or unit == 10 or text == char):
                return None
            total, digit, size, zero = total + (digit or 1) * unit, 0, unit, False
        elif digit:
            return None
        else:
            digit = _VALUES[char]
            zero = zero or digit == 0
    shortened = 10 < size < 10_000 and not zero  # 三千五 is 3500
    return total + digit * (size // 10 if shortened else 1) if text else None
