"""A session's mark as bytes: one MessagePack array, its version first. Small, as it is written again and again."""

import msgspec

from streamscribe.core.errors import BadRequest
from streamscribe.core.session_mark import DownlinkMark, FinalsRun, ResultMark, SessionMark, UplinkMark

VERSION = 1
_MAX_SEGMENTS = 2**16

_Runs = list[tuple[int, int, int, bool]]
_Voice = list[tuple[int, int, bool]]
_Stored = tuple[int, int, int | None, int, bool, int, int, _Runs, int, int, _Voice]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


def encode_mark(mark: SessionMark) -> bytes:
    """Of any mark."""
    up, down = mark.uplink, mark.downlink
    runs = [(run.first, run.count, run.pass_, run.stands) for run in down.results.finals]
    uplink = (up.next_index, up.next_sequence, up.received_bytes, up.ended)
    results = (down.results.last_version, down.results.closed_up_to, runs)
    return _encode((VERSION, *uplink, *results, down.processed_ms, down.answered, down.voice))


def decode_mark(data: bytes) -> SessionMark:
    """What `encode_mark` wrote. Raises BadRequest for anything else."""
    try:
        version, index, sequence, received, ended, last, closed, runs, processed, answered, voice = _decode(data)
    except msgspec.MsgspecError:
        raise BadRequest("a mark is not of a known form", field="mark") from None
    if version != VERSION:
        raise BadRequest(f"the version of a mark must be {VERSION}", field="mark")
    if sum(max(0, count) for _, count, _, _ in runs) > _MAX_SEGMENTS:
        raise BadRequest(f"a mark may have {_MAX_SEGMENTS} segments", field="mark")
    results = ResultMark(last, closed, tuple(FinalsRun(*run) for run in runs))
    return SessionMark(
        UplinkMark(index, sequence, received, ended), DownlinkMark(results, processed, answered, tuple(voice))
    )
