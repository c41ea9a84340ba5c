"""What a process needs beyond the base package, and the one way in which it is told how to get it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamscribe.bench.kinds import Engine
from streamscribe.bench.streaming_models import real_size
from streamscribe.bootstrap import extras
from streamscribe.bootstrap.caches import open_kept
from streamscribe.bootstrap.engines import EngineLoader
from streamscribe.bootstrap.kafka import ensure_topics
from streamscribe.bootstrap.sessions import need_cluster, open_shared_sessions
from streamscribe.settings import SettingsError, load

SETTINGS = load(
    None,
    {
        "kafka.brokers": "localhost:1",
        "store.redis_url": "redis://localhost:1/0",
        "cache.redis_url": "redis://localhost:1/0",
        "model.profile": "tiny",
        "model.engine": "torch",
    },
)


@pytest.mark.parametrize(
    ("ask", "who", "wanted"),
    [
        (lambda: need_cluster(SETTINGS), "a cluster", "kafka,redis"),
        (lambda: ensure_topics(SETTINGS), "setting kafka.brokers", "kafka"),
        (lambda: open_shared_sessions(SETTINGS.store), "setting store.redis_url", "redis"),
        (lambda: open_kept(SETTINGS.cache), "setting cache.redis_url", "redis"),
        (lambda: EngineLoader(SETTINGS.model).streaming(), "setting model.engine torch", "funasr"),
        (lambda: real_size(Path("nowhere"), Engine.TORCH), "a model of real size", "funasr"),
    ],
)
def test_who_lacks_an_extra_is_told_in_the_same_words_what_to_type(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[], Any], who: str, wanted: str
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(SettingsError) as raised:
        ask()
    told = f"{who} needs more packages; in the checkout, type: pip install -e '.[{wanted}]'"
    assert str(raised.value) == told
