"""Requests to Nano's language model, and answers that can be compared token by token."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamscribe.core.batching import BatchPolicy, Priority
from streamscribe.core.options import Hotword
from streamscribe.models.ports import DecodeRequest, Hypothesis

SECOND = 16_000
OPEN = BatchPolicy()


class IdsAsWords:
    """A tokenizer that tells the ids of an answer, so that answers can be compared token by token."""

    def __init__(self, tokenizer: Any) -> None:
        self.encode = tokenizer.encode

    def decode(self, ids: list[int], **_how: Any) -> str:
        return " ".join(map(str, ids))


def a_request(nano, seed: int, rows: int = 12, seconds: float = 1.0, **wishes: Any) -> DecodeRequest:
    embedding = np.random.default_rng(seed).normal(0, 1, (rows, nano.width)).astype(np.float32)
    return DecodeRequest(embedding, int(seconds * SECOND), **wishes)


def some_requests(nano, seed: int, count: int) -> list[DecodeRequest]:
    """Of different lengths, wishes and limits; the last is the first once more."""
    choose = random.Random(seed)
    names = (Hotword("一二三"),)
    wishes: list[dict[str, Any]] = [{}, {"itn": True}, {"language": "en"}, {"hotwords": names}, {"context": "四五六"}]
    requests = [
        a_request(nano, 100 * seed + one, choose.randint(1, 60), choose.uniform(0.1, 4), **choose.choice(wishes))
        for one in range(count - 1)
    ]
    return [*requests, requests[0]]


async def ask(decoder, request: DecodeRequest, priority: Priority = Priority.URGENT) -> Hypothesis:
    return await decoder.submit(request, priority=priority, audio_s=request.num_samples / SECOND)


def same(heard: Hypothesis, expected: Hypothesis) -> bool:
    return replace(heard, confidence=0) == replace(expected, confidence=0) and heard.confidence == pytest.approx(
        expected.confidence, abs=1e-3
    )
