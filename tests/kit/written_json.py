"""Random payloads of asset events as anyone may write them: sound, odd and none at all."""

from __future__ import annotations

from hypothesis import strategies as st

from lily.pipeline.payloads import Said

_NUMBERS = (
    "0 -0 7 1.0 1.10 -0.0 2.5 10.50 1e5 1E-7 0.00001 0.30000000000000004 12345678901234.5 123456789012345.6 "
    "1e400 2147483648 -2147483649 999999999999999999999 01 1. .5 +1 1e NaN -Infinity"
)
_LETTERS = (
    r"a é 𝄞 \n \/ \" \u0000 \\u0000 \ud800 \udc00 \ud83d\ude00 \uD83D\u0041 \x [ { Infinity "
    "2026-01-01T00:00:00Z"
)
_NAMES = (*Said.__struct_fields__, "metadat\\u0061", "colour")

_space = st.sampled_from(["", "", "", " ", "\n", "\t\r", "\f", "\N{NO-BREAK SPACE}"])
_number = st.sampled_from([*_NUMBERS.split(), "9" * 4301])
_letter = st.sampled_from([*_LETTERS.split(), "\x01", "\x7f", ": 2.50 ", ", 1e5"])
_text = st.lists(_letter, max_size=3).map(lambda letters: f'"{"".join(letters)}"')
_levels = st.builds(lambda levels, end: "[" * levels + end + "]" * levels, st.integers(190, 205), _number)
_short = st.sampled_from(["true", "false", "null", "tru", "[]", '["a", "b"]', '"plain"', "1"])


def _listed(inner: st.SearchStrategy[str], pattern: str) -> st.SearchStrategy[str]:
    spaced = st.builds("{0}{1}{0}".format, _space, inner)
    return st.lists(spaced, max_size=4).map(lambda items: pattern % ",".join(items))


def _object(names: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return _listed(st.builds("{1}{0}:{0}{2}".format, _space, names, values), "{%s}")


_value = st.recursive(
    _short | _number | _text | _levels,
    lambda inner: _listed(inner, "[%s]") | _object(_text, inner),
    max_leaves=6,
)
_member = st.builds('"{}":{}'.format, st.sampled_from(_NAMES), _short | _value)
_metadata = (_object(_text, _value) | _levels).map('"metadata":{}'.format)


def written_payloads() -> st.SearchStrategy[bytes]:
    """JSON objects for the most part; members come twice, in other spellings and with other types."""
    around = st.sampled_from(
        [("", "")] * 6 + [(" ", "\n"), ("\ufeff", ""), ("[", "]"), ("", "{}"), ("", "\0")]
    )
    whole = st.builds(
        lambda members, ends: (ends[0] + members + ends[1]).encode(),
        _listed(_member | _metadata, "{%s}"),
        around,
    )
    return whole | st.builds(_spoilt, whole, st.integers(0, 300))


def _spoilt(value: bytes, place: int) -> bytes:
    """With octets somewhere that are no text."""
    octets = (b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"")[place % 4]
    return value[:place] + octets + value[place + 1 :]
