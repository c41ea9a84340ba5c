"""Where clients of this machine reach a listener."""

import socket

import pytest

from streamscribe.gateway.listener import Address, bound, is_everywhere, url_here
from streamscribe.settings import SettingsError


@pytest.mark.parametrize(
    ("host", "url", "everywhere"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000", False),
        ("192.0.2.7", "http://192.0.2.7:8000", False),
        ("asr.example", "http://asr.example:8000", False),
        ("::1", "http://[::1]:8000", False),
        ("0.0.0.0", "http://127.0.0.1:8000", True),
        ("::", "http://[::1]:8000", True),
        ("", "http://127.0.0.1:8000", True),
    ],
)
def test_the_url_of_a_listener_is_one_that_a_client_on_its_machine_can_open(
    host: str, url: str, everywhere: bool
) -> None:
    assert (url_here("http", host, 8000), is_everywhere(host)) == (url, everywhere)


def test_who_finds_a_port_taken_is_advised_none_that_it_needs_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wanted = [Address("127.0.0.1", number, "gateway.port") for number in (port, port + 1)]
        with pytest.raises(SettingsError) as told, bound(*wanted):
            pass
    assert f"--port {port + 2} takes another" in str(told.value)
