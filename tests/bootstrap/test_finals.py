"""What a worker knows of the recogniser that its finalizers have, without loading it."""

import asyncio

import pytest

from streamscribe.bootstrap.cluster.finals import RecognizerElsewhere, recognition_elsewhere
from streamscribe.bootstrap.engines import tail_padding_ms
from streamscribe.bootstrap.models import load_models
from streamscribe.bootstrap.platform import platform
from streamscribe.observe.metrics import Metrics
from streamscribe.settings import SettingsError, load


@pytest.mark.parametrize(
    "second_pass", ["fake", "paraformer", "sensevoice", "auto"]
)  # nano and funasr need an extra, and have the same rule
def test_it_cuts_segments_as_if_it_had_the_model_itself(second_pass: str) -> None:
    chosen = {"model.profile": "fake"} if second_pass == "fake" else {"model.profile": "tiny"}
    settings = load(overrides=chosen | ({} if second_pass == "fake" else {"model.second_pass": second_pass}))
    real = load_models(settings.model).recognition.current.recognizer
    known = RecognizerElsewhere(tail_padding_ms(settings.model))
    assert (known.tail_padding_ms, known.max_samples) == (real.tail_padding_ms, real.max_samples)


async def test_finalizers_are_asked_only_where_that_is_set_and_in_a_cluster() -> None:
    settings = load(overrides={"model.profile": "fake"})
    async with recognition_elsewhere(settings, Metrics().registry) as elsewhere:
        assert elsewhere is None
    with pytest.raises(SettingsError, match=r"finalizer\.enabled: finalizers work for `streamscribe worker`"):
        async with platform(load(overrides={"model.profile": "fake", "finalizer.enabled": True})):
            await asyncio.sleep(0)
