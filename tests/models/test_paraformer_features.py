"""Rows of a stream, chunk by chunk, are those of the whole recording."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamscribe.models.fbank import MELS
from streamscribe.models.lfr import low_frame_rate
from streamscribe.models.paraformer.features import CONTEXT_FRAMES, ChunkFrontend, row_count


@pytest.fixture(scope="module")
def frontend(tmp_path_factory) -> ChunkFrontend:
    """One that changes nothing."""
    file = tmp_path_factory.mktemp("model") / "am.mvn"
    vector = "<LearnRateCoef> 0 [ {} ]"
    width = 7 * MELS
    file.write_text(
        f"<Nnet>\n<AddShift> {width} {width}\n{vector.format('0 ' * width)}\n"
        f"<Rescale> {width} {width}\n{vector.format('1 ' * width)}\n</Nnet>\n"
    )
    return ChunkFrontend(file)


@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=5), chunk_rows=st.sampled_from([5, 10, 20]))
@settings(max_examples=60)
def test_law_4_streams_of_unequal_length_have_together_the_rows_of_each_recording(frontend, lengths, chunk_rows):
    random = np.random.default_rng(sum(lengths))
    streams = [random.normal(0, 1, (length, MELS)).astype(np.float32) for length in lengths]
    size = 6 * chunk_rows
    told, contexts = [[] for _ in streams], [None] * len(streams)
    for start in range(0, max(lengths), size):
        here = [i for i, stream in enumerate(streams) if start < len(stream)]
        parts = [streams[i][start : start + size] for i in here]
        counts = [row_count(len(part)) for part in parts]
        rows = frontend.rows([contexts[i] for i in here], parts, max(counts))
        for i, part, count, own in zip(here, parts, counts, rows, strict=True):
            told[i].append(own[:count])
            contexts[i] = part[-CONTEXT_FRAMES:]
    for parts, stream in zip(told, streams, strict=True):
        assert np.array_equal(np.concatenate(parts), low_frame_rate(stream))
