"""Which questions share an answer, what an answer keeps, and what is never kept."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamscribe.cache.resting import RestingBlobs
from streamscribe.cache.tally import Asked
from streamscribe.cache.transcripts import Found, Said, Sources
from streamscribe.core.options import Hotword, Task
from streamscribe.core.tokens import HypothesisWord, Mark
from streamscribe.models.ports import Hypothesis, SegmentRequest
from tests.cache.kit import ACME, KEYS, OTHER, SAID, SOURCES, memory, noise, transcripts

ASKED = SegmentRequest(noise(), language="zh", hotwords=(Hotword("a", 2.0), Hotword("b")), tenant_id=ACME)


def test_what_was_said_comes_back_to_the_last_bit() -> None:
    kept = transcripts(memory())
    found = kept.find(ASKED, SOURCES)
    assert found.said is None
    assert found.key is not None
    assert kept.keep(ACME, found.key, SAID)
    assert kept.find(replace(ASKED, samples=ASKED.samples.copy()), SOURCES).said == SAID


@pytest.mark.parametrize(
    "change",
    [
        {"samples": noise(1)},
        {"samples": noise(samples=15_999)},
        {"language": "en"},
        {"language": None},
        {"task": Task.TRANSLATE},
        {"hotwords": (Hotword("a", 2.5), Hotword("b"))},
        {"hotwords": (Hotword("a", 2.0),)},
        {"hotwords": (Hotword("b"), Hotword("a", 2.0))},
        {"words": True},
        {"itn": True},
        {"tenant_id": OTHER},
        {"tenant_id": None},
        {"frames": np.zeros((98, 80), np.float32)},
    ],
    ids=lambda change: "-".join(change),
)
def test_another_question_finds_nothing(change: dict[str, Any]) -> None:
    kept = transcripts(memory())
    key = kept.find(ASKED, SOURCES).key
    assert key is not None
    kept.keep(ACME, key, SAID)
    assert kept.find(replace(ASKED, **change), SOURCES).said is None


@pytest.mark.parametrize(
    "sources",
    [
        Sources(("recognizer", 1, "other sum"), SOURCES.punctuator),
        Sources(SOURCES.recognizer, ("punctuator", 1, "other sum")),
        Sources(SOURCES.recognizer, None),
        Sources((*SOURCES.recognizer, 3, *(SOURCES.punctuator or ())), None),
    ],
)
def test_other_models_find_nothing(sources: Sources) -> None:
    blobs = memory()
    kept = transcripts(blobs)
    key = kept.find(ASKED, SOURCES).key
    assert key is not None
    kept.keep(ACME, key, SAID)
    assert kept.find(ASKED, sources).said is None


def test_marks_of_a_model_are_not_found_where_none_is_to_punctuate() -> None:
    kept = transcripts(memory())
    bare = Sources(SOURCES.recognizer, None)
    marked_key, bare_key = (kept.find(ASKED, sources).key for sources in (SOURCES, bare))
    assert marked_key is not None
    assert bare_key is not None
    kept.keep(ACME, marked_key, SAID)
    assert kept.find(ASKED, bare).said is None
    kept.keep(ACME, bare_key, replace(SAID, marks=()))
    assert kept.find(ASKED, bare).said == replace(SAID, marks=())


@pytest.mark.parametrize("change", [{"draft": True}, {"store": False}])
def test_drafts_and_what_may_not_be_stored_are_neither_looked_up_nor_given_a_key(change: dict[str, Any]) -> None:
    store = RestingBlobs(memory(), lambda turn: None)
    kept = transcripts(store)
    key = kept.find(ASKED, SOURCES).key
    assert key is not None
    kept.keep(ACME, key, SAID)
    assert kept.find(replace(ASKED, **change), SOURCES) == Found()
    assert store.rest.asked == Asked(hits=0, misses=1)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"heard":{"text":5}}', b"[1]", b"\xff"])
def test_what_reads_as_no_answer_is_a_miss_and_removed(data: bytes) -> None:
    blobs = memory()
    kept = transcripts(blobs)
    key = kept.find(ASKED, SOURCES).key
    assert key is not None
    blobs.put(KEYS.owner(ACME), key.cache_key, data, 100)
    assert kept.find(ASKED, SOURCES) == Found(key)
    assert blobs.get(key.cache_key) is None


def test_a_tenants_purge_takes_its_answers_and_no_others() -> None:
    blobs = memory()
    kept = transcripts(blobs)
    for tenant in (ACME, OTHER):
        key = kept.find(replace(ASKED, tenant_id=tenant), SOURCES).key
        assert key is not None
        kept.keep(tenant, key, SAID)
    assert blobs.purge(KEYS.owner(ACME)) == 1
    assert kept.find(ASKED, SOURCES).said is None
    assert kept.find(replace(ASKED, tenant_id=OTHER), SOURCES).said == SAID


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_confidences = st.floats(0, 1)
_positions = st.integers(0, 480_000)
_said = st.builds(
    Said,
    st.builds(
        Hypothesis,
        _texts,
        st.none() | _texts,
        _confidences,
        st.lists(st.builds(HypothesisWord, _texts, _positions, _positions, _confidences), max_size=3).map(tuple),
        st.booleans(),
        st.none() | _texts,
        st.lists(_texts, max_size=2).map(tuple),
    ),
    st.lists(st.builds(Mark, _positions, _texts), max_size=3).map(tuple),
)


@given(_said)
def test_any_answer_survives(said: Said) -> None:
    kept = transcripts(memory())
    key = kept.find(ASKED, SOURCES).key
    assert key is not None
    kept.keep(ACME, key, said)
    assert kept.find(ASKED, SOURCES).said == said
