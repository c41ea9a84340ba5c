"""Who may forbid caches to keep anything of a session: each client in its own way, and its tenant for all of them."""

import pytest

from streamscribe.core.messages import Audio, Start
from streamscribe.core.options import SessionOptions, Task
from streamscribe.core.session_io import TenantTexts
from streamscribe.wire.dialects.funasr import FunasrDialect
from streamscribe.wire.native import NativeDialect, native_options_from_query
from streamscribe.wire.rest_request import read_request
from tests.unit.session_kit import Driver, records


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("", True),
        ("no-cache", True),
        ("no-storehouse", True),
        ("no-store", False),
        ("max-age=0, No-Store", False),
    ],
)
def test_a_rest_request_forbids_storing_by_cache_control(header: str, kept: bool) -> None:
    assert read_request([], Task.TRANSCRIBE, [], cache_control=header).options.store is kept


def test_a_native_client_forbids_storing_in_its_address_or_its_start() -> None:
    options = native_options_from_query({"store": "false"})
    assert options.store is False
    (start,) = NativeDialect(options).decode_text('{"type":"start","words":true}')
    assert isinstance(start, Start)
    assert start.options.store is False
    (start,) = NativeDialect(SessionOptions()).decode_text('{"type":"start","store":false}')
    assert isinstance(start, Start)
    assert start.options.store is False


def test_a_funasr_client_forbids_storing_by_its_configuration() -> None:
    dialect = FunasrDialect("2pass-online")
    dialect.decode_text('{"mode":"offline","store":false}')
    start, *_ = dialect.decode_binary(bytes(64_000))
    assert isinstance(start, Start)
    assert start.options.store is False


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("zero_retention", [True, False])
def test_a_session_is_stored_only_where_neither_client_nor_tenant_forbids_it(asked: bool, zero_retention: bool) -> None:
    session = Driver(SessionOptions(store=asked), texts=TenantTexts(zero_retention=zero_retention))
    opened, _ = records(session(Audio(b"ab")))
    assert opened.options.store is (asked and not zero_retention)
