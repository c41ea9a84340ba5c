"""Value types: what is not valid never becomes one, and time is arithmetic on samples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.core.audio import AudioFormat, Encoding, to_ms, to_samples
from streamscribe.core.ids import SessionId, TenantId


@pytest.mark.parametrize("text", ["", "a b", "-a", "a\n", "ü", "a" * 65, "../etc", "a/b"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="1 to 64 characters"):
        SessionId(text)


def test_an_id_that_is_none_is_told_in_a_readers_words() -> None:
    with pytest.raises(ValueError, match=r"^a tenant's id must be 1 to 64 characters"):
        TenantId("bad tenant/x")


def test_an_id_is_its_text() -> None:
    assert TenantId("acme:eu-1.test_2") == "acme:eu-1.test_2"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"sample_rate": 7999}, "sample_rate"),
        ({"sample_rate": 48_001}, "sample_rate"),
        ({"channels": 0}, "channels"),
        ({"channels": 3}, "channels"),
    ],
)
def test_an_audio_format_out_of_bounds_names_the_field(fields: dict[str, int], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        AudioFormat(**fields)  # type: ignore[arg-type]


def test_the_duration_of_bytes_counts_samples_and_channels() -> None:
    assert AudioFormat(Encoding.PCM_F32, 8000, 2).seconds(64_000) == 1.0
    assert AudioFormat(Encoding.MULAW, 8000).seconds(4000) == 0.5


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_law_5_milliseconds_never_go_back(one: int, other: int) -> None:
    early, late = sorted((one, other))
    assert to_ms(early) <= to_ms(late)
    assert to_ms(to_samples(early)) == early
