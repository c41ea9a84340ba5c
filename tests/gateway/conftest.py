"""Two gateways that sessions may move between."""

from collections.abc import AsyncIterator

import pytest

from tests.gateway.moving_rig import Site, Store, site


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def first(store: Store) -> AsyncIterator[Site]:
    async with site(store, "first") as made:
        yield made


@pytest.fixture
async def second(store: Store) -> AsyncIterator[Site]:
    async with site(store, "second") as made:
        yield made
