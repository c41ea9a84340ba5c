"""Roles of a cluster whose topics are deleted under them."""

import asyncio
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from streamscribe.bus.kafka import config
from streamscribe.settings import KafkaSettings
from tests.service.cluster_kit import cluster

pytestmark = pytest.mark.timeout(300)


async def test_a_role_is_not_ready_while_a_topic_is_missing_and_names_it(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        roles = [running.worker(), running.gateway()]
        admin = AdminClient(config.client(KafkaSettings(brokers=running.broker.address)))

        async def until_ready(http: httpx.AsyncClient) -> None:
            for role in roles:
                while (await http.get(f"{role.url}/readyz")).status_code != 200:
                    await asyncio.sleep(0.1)

        async with httpx.AsyncClient(timeout=None) as http:
            await until_ready(http)
            for deleted in admin.delete_topics(["dead-letter"]).values():
                deleted.result(10)
            for role in roles:
                while (answer := await http.get(f"{role.url}/readyz")).status_code == 200:
                    await asyncio.sleep(0.1)
                assert answer.json()["waiting_for"] == ["topic dead-letter"]
            assert running.run("topics", "ensure").returncode == 0
            await until_ready(http)
