from collections.abc import Iterator

import pytest

from tests.contracts.kafka_broker import Broker, kafka_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One for all tests of a process: each has topics of its own."""
    with kafka_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running
