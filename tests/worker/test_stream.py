"""Laws of one session's results."""

import pytest

from streamscribe.core.audio import AudioFormat
from streamscribe.core.options import Mode, SessionOptions
from streamscribe.core.records import Finished
from tests.worker.kit import OFFLINE, PACKETS, rig, said, silence, speech, stereo, voice


@pytest.mark.parametrize("options", [OFFLINE, SessionOptions(words=True)], ids=["offline", "2pass"])
async def test_law_4_packets_of_any_size_give_identical_finals_ids_and_times(options: SessionOptions) -> None:
    audio = speech(1, 1500, 3000, 700)
    async with rig() as worker:
        one, *others = [said(await worker.transcribe(f"s{size}", audio, options, size)) for size in PACKETS]
        assert len(one) == 3
        assert all(other == one for other in others)
