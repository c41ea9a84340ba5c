"""Subtitles of finals in SRT and WebVTT."""

from collections.abc import Iterable

from streamscribe.core.results import Result
from streamscribe.text.cues import cues, label


def srt(results: Iterable[Result]) -> str:
    """The finals' text as SubRip, in the order of their times; a speaker for each channel where there are several."""
    blocks = []
    for number, cue in enumerate(cues(results), 1):
        text = (label(cue.speaker) + "\n".join(cue.lines)).replace("-->", "→")
        blocks.append(f"{number}\n{_clock(cue.start_ms, ',')} --> {_clock(cue.end_ms, ',')}\n{text}\n")
    return "\n".join(blocks)


def vtt(results: Iterable[Result]) -> str:
    """The finals' text as WebVTT, in the order of their times; a voice for each channel where there are several."""
    blocks = ["WEBVTT\n"]
    for cue in cues(results):
        text = "\n".join(cue.lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        voice = f"<v {cue.speaker}>" if cue.speaker else ""
        blocks.append(f"{_clock(cue.start_ms, '.')} --> {_clock(cue.end_ms, '.')}\n{voice}{text}\n")
    return "\n".join(blocks)


def _clock(ms: int, point: str) -> str:
    seconds, ms = divmod(ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{ms:03}"
