"""What a file is, by its first bytes alone; names and declared types are never believed."""

from enum import StrEnum

HEAD_BYTES = 16


class Container(StrEnum):
    """The accepted containers; the value is the name that a person knows."""

    WAV = "wav"
    FLAC = "flac"
    MP3 = "mp3"
    OGG = "ogg"
    AAC = "aac"
    MP4 = "m4a"
    MATROSKA = "webm"


def sniff(head: bytes) -> Container | None:
    """The container whose magic `head` (at least HEAD_BYTES of a file, if it has as many) bears; None: not accepted."""
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return Container.WAV
    if head[4:8] == b"ftyp":
        return Container.MP4
    for magic, container in (
        (b"fLaC", Container.FLAC),
        (b"OggS", Container.OGG),
        (b"ID3", Container.MP3),
        (b"\x1aE\xdf\xa3", Container.MATROSKA),
    ):
        if head.startswith(magic):
            return container
    return _mpeg_frame(head)


def _mpeg_frame(head: bytes) -> Container | None:
    """MPEG audio without a tag: the first frame's header must be possible, so that text is not taken for it."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    layer = head[1] >> 1 & 3
    if layer == 0:
        return Container.AAC if head[1] & 0xF0 == 0xF0 and head[2] >> 2 & 0xF < 13 else None
    version, bitrate, rate = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    return Container.MP3 if version != 1 and bitrate not in (0, 15) and rate != 3 else None
