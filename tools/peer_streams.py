"""The same real-time load for StreamScribe and its peers, each in the words of its own clients.

    python tools/peer_streams.py funasr ws://localhost:10095 --streams 100     # FunASR's servers, and StreamScribe's
    python tools/peer_streams.py sherpa ws://localhost:6006 --streams 100      # sherpa-onnx-online-websocket-server

Every stream says recordings for `--seconds` in real time, pauses, stops, and waits for the server's last word. Told are
the seconds from the stop to that word, and the error rate of what was heard: a stream that comes late, or says nothing,
was not kept up with. docs/benchmarks.md says how each peer is started.
"""

import argparse
import asyncio
import json
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from streamscribe.bench.recordings import Recording, recordings
from streamscribe.bench.text import corpus_error_rate
from streamscribe.core.audio import SAMPLE_RATE

PAUSE_S = 1.6
LAST_PAUSE_S = 1.2


@dataclass
class Stream:
    said: str
    samples: np.ndarray
    heard: list[str] = field(default_factory=list)
    late_s: float = float("nan")
    error: str = ""


def script(said: list[Recording], seconds: float) -> Stream:
    """Recordings with pauses, until the seconds are over."""
    parts, texts, length = [], [], 0
    while length < seconds * SAMPLE_RATE:
        recording = said[len(texts) % len(said)]
        pause = np.zeros(int(PAUSE_S * SAMPLE_RATE), np.int16)
        parts += recording.samples, pause
        texts.append(recording.text)
        length += len(recording.samples) + len(pause)
    parts[-1] = parts[-1][: int(LAST_PAUSE_S * SAMPLE_RATE)]
    return Stream("".join(texts), np.concatenate(parts))


async def funasr(socket: ClientConnection, stream: Stream, packet_s: float) -> None:
    """FunASR's protocol; the text is the second pass's, or the first one's where there is no other."""
    await socket.send(
        json.dumps(
            {
                "mode": "2pass",
                "wav_name": "load",
                "is_speaking": True,
                "chunk_size": [5, 10, 5],
                "chunk_interval": 10,
                "encoder_chunk_look_back": 4,
                "decoder_chunk_look_back": 1,
                "itn": False,
            }
        )
    )
    stopped = asyncio.get_running_loop().create_future()

    async def read() -> None:
        async for message in socket:
            told = json.loads(message)
            if told.get("mode", "").endswith("offline") and told.get("text"):
                stream.heard.append(told["text"])
            if told.get("is_end") or (stopped.done() and told.get("is_final")):
                stream.late_s = perf_counter() - stopped.result()
                return

    reading = asyncio.create_task(read())
    await play(socket, stream.samples.astype("<i2"), packet_s)
    await socket.send(json.dumps({"is_speaking": False, "is_end": True}))
    stopped.set_result(perf_counter())
    await reading


async def sherpa(socket: ClientConnection, stream: Stream, packet_s: float) -> None:
    """The protocol of sherpa-onnx's streaming server: float32 samples, `Done`, and `Done!` as its last word."""
    open_text = ""
    stopped = asyncio.get_running_loop().create_future()

    async def read() -> None:
        nonlocal open_text
        try:
            async for message in socket:
                if message == "Done!":
                    break
                told = json.loads(message)
                open_text = told["text"]
                if told["is_final"]:
                    stream.heard.append(open_text)
                    open_text = ""
        except ConnectionClosed:
            pass
        stream.late_s = perf_counter() - stopped.result()
        stream.heard.append(open_text)

    reading = asyncio.create_task(read())
    await play(socket, (stream.samples / np.float32(32768)).astype("<f4"), packet_s)
    await socket.send("Done")
    stopped.set_result(perf_counter())
    await reading


async def play(socket: ClientConnection, samples: np.ndarray, packet_s: float) -> None:
    step, due = int(packet_s * SAMPLE_RATE), perf_counter()
    for at in range(0, len(samples), step):
        await socket.send(samples[at : at + step].tobytes())
        due += packet_s
        await asyncio.sleep(max(0.0, due - perf_counter()))


async def one(protocol, url: str, stream: Stream, delay_s: float, options: argparse.Namespace) -> None:
    await asyncio.sleep(delay_s)
    try:
        names = [Subprotocol("binary")] if protocol is funasr else None  # which FunASR's server insists on
        async with connect(
            url, subprotocols=names, compression=None, max_size=None, ping_interval=None, open_timeout=60
        ) as socket:
            async with asyncio.timeout(len(stream.samples) / SAMPLE_RATE + options.patience_s):
                await protocol(socket, stream, options.packet_s)
    except (OSError, TimeoutError, ConnectionClosed) as error:
        stream.error = type(error).__name__


async def main(options: argparse.Namespace) -> None:
    said = recordings()
    streams = [
        script([*said[n % len(said) :], *said[: n % len(said)]], options.seconds) for n in range(options.streams)
    ]
    protocol = {"funasr": funasr, "sherpa": sherpa}[options.protocol]
    spread_s = min(options.seconds, options.streams / 20)
    await asyncio.gather(
        *(one(protocol, options.url, s, spread_s * n / len(streams), options) for n, s in enumerate(streams))
    )
    late_s = sorted(stream.late_s for stream in streams if stream.late_s == stream.late_s)
    figures = {
        "streams": len(streams),
        "finished": len(late_s),
        "stop_to_done_p50_s": round(late_s[len(late_s) // 2], 3) if late_s else None,
        "stop_to_done_p95_s": round(late_s[int(len(late_s) * 0.95)], 3) if late_s else None,
        "stop_to_done_max_s": round(late_s[-1], 3) if late_s else None,
        "error_rate": round(corpus_error_rate([s.said for s in streams], ["".join(s.heard) for s in streams]), 4),
        "errors": sorted({stream.error for stream in streams if stream.error}),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("protocol", choices=["funasr", "sherpa"])
    parser.add_argument("url")
    parser.add_argument("--streams", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--packet-s", type=float, default=0.1)
    parser.add_argument("--patience-s", type=float, default=60, help="how long to wait for the last word")
    asyncio.run(main(parser.parse_args()))
