"""Whatever somebody writes as the address of a Redis: it is refused as none, or the Redis is away, and no more."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamscribe.cache.blobs import Seal
from streamscribe.cache.redis import RedisBlobs
from streamscribe.core.errors import StoreUnavailable
from streamscribe.redis_url import UnusableAddress
from streamscribe.store.redis_link import RedisLink


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """One where whoever connects is hung up on: far enough to begin TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        hanging_up = threading.Thread(target=hang_up)
        hanging_up.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        hanging_up.join()


def uses(address: str) -> None:
    """Both clients, from the address to the first connection."""
    with suppress(UnusableAddress):
        RedisBlobs(address, Seal(bytes(32)), timeout_s=0.2).answers()
    with suppress(UnusableAddress, StoreUnavailable):
        asyncio.run(_asks(address))


async def _asks(address: str) -> None:
    link = RedisLink(address, timeout_s=0.2, max_connections=1)
    try:
        await link.ask(lambda: link.client.ping())
    finally:
        await link.close()


ODD = [
    *("ssl_cert_reqs=non", "protocol=7", "ssl_min_version=99", "ssl_min_version=768", "ssl_ciphers=none"),
    *("ssl_ca_certs=/nowhere", "ssl_keyfile=/nowhere", "ssl_certfile=%00", "ssl_ca_data=x", "ssl_ca_data=%C3%A9"),
    *("encoding=none", "encoding_errors=none", "retry=3", "retry_on_error=x", "redis_connect_func=x"),
    *(
        "credential_provider=x",
        "username=x&credential_provider=y",
        "maint_notifications_config=x",
        "event_dispatcher=x",
    ),
    *("socket_timeout=nan", "socket_timeout=-1", "socket_timeout=1e300", "socket_connect_timeout=nan"),
    *("max_connections=0", "max_connections=-1", "timeout=1", "socket_read_size=-3", "socket_type=9"),
    *("port=x", "host=%00", "path=/x", "parser_class=x", "connection_class=x", "client_name=a%20b%0a", "db=-1"),
    *("ssl_validate_ocsp=1", "ssl_check_hostname=1&ssl_cert_reqs=none", "lib_name=x", "health_check_interval=-1"),
]


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_option_is_refused_or_of_a_redis_that_is_away(port: int, scheme: str, odd: str) -> None:
    uses(f"{scheme}://127.0.0.1:{port}/0?{odd}")


def link(address: str) -> RedisLink:
    return RedisLink(address, timeout_s=1, max_connections=1)


def blobs(address: str) -> RedisBlobs:
    return RedisBlobs(address, Seal(bytes(32)))


@pytest.mark.parametrize("make", [link, blobs])
@pytest.mark.parametrize(
    "address",
    [
        *("", "redis", "http://h", "redis://[::1", "redis://h:99999", "redis://h:x", "redis://h/none", "redis://h/1/2"),
        *("redis:6379", "redis:h", "rediss:h:6379/0", "redis://:6379/0", "redis://:secret@:6379"),
        *("redis://h%00", "redis://\0", "redis://h..h", f"redis://{'h' * 64}", "redis://h/-1", "redis://\u2100"),
        *("rediss://h?ssl_cert_reqs=non", "redis://h?protocol=7", "rediss://h?ssl_min_version=99"),
        *("rediss://h?ssl_ca_certs=/nowhere", "rediss://h?ssl_keyfile=/nowhere", "rediss://h?ssl_ciphers=none"),
        *(
            "redis://h?socket_timeout=5",
            "redis://h?max_connections=1",
            "redis://h?encoding=utf-16",
            "redis://h?retry=3",
        ),
        *("redis://h?maint_notifications_config=x", "redis://h?credential_provider=x", "redis://h?ssl_ciphers=DEFAULT"),
    ],
)
def test_an_address_that_cannot_be_used_as_it_says_is_refused_before_it_is(
    address: str, make: Callable[[str], object]
) -> None:
    with pytest.raises(UnusableAddress):
        make(address)


@pytest.mark.parametrize(
    "address",
    [
        *("redis://", "redis://h", "redis://h/", "redis://u:p%40ss@h:1/2", "redis://[::1]:1/0", "unix:///tmp/x?db=1"),
        "rediss://h/0?ssl_cert_reqs=none&ssl_check_hostname=no&ssl_min_version=772&ssl_ciphers=DEFAULT",
        "redis://h?db=3&protocol=3&client_name=me&health_check_interval=5&socket_keepalive=1&username=u&password=p",
    ],
)
def test_an_address_that_is_one_is_taken(address: str) -> None:
    link(address)
    blobs(address)


NAMES = sorted(
    {one.partition("=")[0] for odd in ODD for one in odd.split("&")} | {"password", "protocol", "", "decode"}
)
VALUES = st.sampled_from(["", "0", "1", "-1", "2", "1e9", "nan", "none", "required", "yes", "/", "9" * 30]) | st.text()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    scheme=st.sampled_from(["redis", "rediss", "unix", "REDIS", "http", ""]),
    user=st.sampled_from(["", "u@", ":p@", "u:p@", "@", ":@"]) | st.text(max_size=5),
    path=st.sampled_from(["", "/", "/0", "/16", "/x", "//"]) | st.text(max_size=5),
    options=st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=3),
    quoted=st.booleans(),
)
def test_any_address_is_refused_or_of_a_redis_that_is_away(
    port: int, scheme: str, user: str, path: str, options: list[tuple[str, str]], quoted: bool
) -> None:
    query = "&".join(f"{name}={quote(value) if quoted else value}" for name, value in options)
    uses(f"{scheme}://{user}127.0.0.1:{port}{path}?{query}")
