"""What ends while nobody asks for anything."""

import asyncio

import numpy as np

from streamscribe.bootstrap.desk import sweep
from streamscribe.cache.levels import BlobLevel, EmbeddingLevel, Levels
from streamscribe.cache.memory import MemoryBlobs
from streamscribe.cache.stage_output import StageOutputCache
from tests.cache.kit import ACME, KEYS
from tests.contracts.blob_store import Clock

KEY = KEYS.derive(ACME, "embedding")


async def test_what_has_ended_goes_on_an_idle_server_too():
    clock = Clock()
    blobs = MemoryBlobs(max_bytes=1000, clock=clock)
    outputs = StageOutputCache(max_entries=9, max_bytes=1000, tenant_share=1.0, ttl_s=60, clock=clock)
    blobs.put(KEYS.owner(ACME), KEY, b"text", 60)
    outputs.put(ACME, KEY, np.ones((1, 4), np.float32))
    levels = Levels([EmbeddingLevel(outputs), BlobLevel("texts", blobs, {"memory": blobs}, KEYS, ttl_s=60)])
    sweeping = asyncio.create_task(sweep(levels, every_s=0.001))
    clock.now += 61
    while blobs._blobs or outputs._values:
        await asyncio.sleep(0.001)
    sweeping.cancel()
