"""Addresses of servers as people type them."""

import pytest

from streamscribe.client.address import http_url, websocket_url

HOST = "asr.example.com:8000"


@pytest.mark.parametrize(
    "address",
    [HOST, f"http://{HOST}", f"http://{HOST}/", f"ws://{HOST}", f"ws://{HOST}/ws/asr", f"http://{HOST}/ws/asr"],
)
def test_whatever_is_typed_names_the_same_server(address):
    assert http_url(address) == f"http://{HOST}"
    assert websocket_url(address) == f"ws://{HOST}/ws/asr"


def test_tls_prefixes_and_parameters_are_kept():
    assert websocket_url("https://h/asr/") == "wss://h/asr/ws/asr"
    assert websocket_url("wss://h/ws/asr?session_id=a") == "wss://h/ws/asr?session_id=a"
    assert http_url("wss://h/asr/ws/asr?session_id=a") == "https://h/asr"


@pytest.mark.parametrize("address", ["", "http://", "ftp://h", "h:port", "http://h:70000", "http://h:0", ":8000"])
def test_what_is_no_address_is_refused_by_name(address):
    with pytest.raises(ValueError, match="is not a server's address"):
        websocket_url(address)
