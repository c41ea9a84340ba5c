"""What one server needs: its doors, bounds, models, workers and logs."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from streamscribe.core.options import (
    MAX_SEGMENT_MS,
    MAX_SILENCE_MS,
    MAX_SPEECH_MS,
    MIN_SEGMENT_MS,
    MIN_SILENCE_MS,
    MIN_SPEECH_MS,
)
from streamscribe.settings.base import Section, bounded


class GatewaySettings(Section):
    """The edge: where it listens and what it accepts."""

    host: str = Field(
        default="127.0.0.1", description="Address to listen on; other than loopback needs tenants_file or no_auth."
    )
    port: int = bounded(8000, 0, 65535, "Port of HTTP and WebSocket; 0 takes a free one.")
    funasr_port: int = bounded(10095, -1, 65535, "Port of the FunASR WebSocket; 0 takes a free one, -1 turns it off.")
    tenants_file: Path | None = Field(default=None, description="YAML file of tenants, hashed keys and quotas.")
    no_auth: bool = Field(default=False, description="Serve without keys on any address.")
    funasr_online_label: Literal["2pass-online", "online"] = Field(
        default="2pass-online", description="Label of partials in FunASR's mode `online` (C++ or Python server's)."
    )
    handshake_timeout_s: float = bounded(10, 0.1, 60, "A request whose headers take longer is closed.")
    drain_timeout_s: float = bounded(
        30,
        0,
        600,
        "Sessions still open so long after SIGTERM are closed; after 4/5 of it they take no more audio.",
    )
    drain_grace_s: float = bounded(0, 0, 60, "Time between not-ready and go_away, for load balancers to notice.")


class LimitSettings(Section):
    """Bounds on everything that a stranger can send or hold."""

    max_message_bytes: int = bounded(4 * 2**20, 2**10, 2**26, "One WebSocket message; larger is closed 1009.")
    max_upload_bytes: int = bounded(512 * 2**20, 2**10, 2**33, "One uploaded file, compressed.")
    max_files: int = bounded(32, 1, 1000, "Files uploaded or recognised at once; one tenant may have half of them.")
    upload_timeout_s: float = bounded(600, 1, 24 * 3600, "An upload that takes longer in all is given up.")
    max_decoded_s: float = bounded(4 * 3600, 1, 24 * 3600, "Audio seconds decoded from one file.")
    max_decoded_bytes: int = bounded(2 * 2**30, 2**16, 2**34, "Bytes decoded from one file, all channels, own rate.")
    decode_memory_bytes: int = bounded(512 * 2**20, 64 * 2**20, 2**33, "Address space of the decoding child.")
    decode_stall_s: float = bounded(20, 1, 600, "A decoding child that gives nothing for so long is killed.")
    max_sessions: int = bounded(1000, 1, 100_000, "Sessions of one process, all tenants.")
    max_tenant_sessions: int = bounded(500, 1, 100_000, "Sessions of one tenant whose file names no quota.")
    max_new_sessions_per_min: int = bounded(
        6000, 1, 100_000, "Sessions that a tenant whose file names no number may begin within a minute."
    )
    max_session_s: float = bounded(4 * 3600, 1, 48 * 3600, "Length of a session.")
    first_audio_timeout_s: float = bounded(30, 0.1, 600, "A session without audio for so long is closed 4408.")
    idle_timeout_s: float = bounded(30, 0.1, 3600, "A session without any message for so long is closed 4408.")
    finalize_timeout_s: float = bounded(
        60,
        0.1,
        3600,
        "Without a final for so long after the end, the session fails; so does a live one whose audio has no room for "
        "so long, as no worker takes any.",
    )
    resume_window_s: float = bounded(30, 0, 600, "A session whose connection was lost can be resumed for so long.")
    slow_reader_timeout_s: float = bounded(20, 0.1, 600, "A client that reads nothing for so long is closed 4408.")
    max_unread_bytes: int = bounded(256 * 2**10, 2**12, 2**24, "Results held for one client that does not read.")
    max_rate: float = bounded(2.0, 1.0, 1000.0, "Live audio in multiples of real time, after the burst.")
    burst_s: float = bounded(10, 1, 600, "Audio seconds that may come at once.")
    max_burst_s: float = bounded(300, 1, 3600, "Audio seconds ahead of the allowed rate that close a session 4429.")
    max_chunks_per_s: float = bounded(2000, 10, 100_000, "Chunks per second of a live session; beyond it is paced.")
    max_backlog_s: float = bounded(5, 0.5, 60, "Audio seconds of one session waiting for a worker.")
    reorder_window: int = bounded(32, 0, 1024, "Chunks held while an earlier sequence is missing.")
    gap_timeout_s: float = bounded(2, 0.1, 60, "A sequence missing for so long is an error.")
    replay_bytes: int = bounded(2**20, 2**12, 2**26, "Results kept per session for a resume.")
    max_utilisation: float = bounded(0.8, 0.05, 100, "New live sessions are refused where a model would be busier.")
    priority_reserve: float = bounded(
        0.1, 0, 0.9, "Share of `max_utilisation` that is kept for tenants with `priority`, where there are any."
    )
    max_newcomers: int = bounded(
        64, 1, 100_000, "Live sessions let in at once; more may come once these are measured: twice as many every 2 s."
    )
    max_lag_ms: float = bounded(1000, 10, 60_000, "New live sessions are refused while 5 % of chunks take longer.")


class ModelSettings(Section):
    """Which models run, where their files lie, how they are batched."""

    profile: Literal["whisper", "tiny", "zh", "fake"] = Field(
        default="whisper",
        description="`whisper`: FSMN-VAD and Whisper base. `zh`: FunASR's Paraformer, streaming and offline, and "
        "CT-Transformer. `tiny`: the same with small models that come along. `fake`: stand-ins for load tests.",
    )
    engine: Literal["onnx", "torch"] = Field(
        default="onnx", description="What runs the streaming Paraformer; `torch` needs the extra `funasr`."
    )
    second_pass: Literal["paraformer", "sensevoice", "nano", "funasr", "auto"] = Field(
        default="paraformer",
        description="What recognises whole segments in the profiles `tiny` and `zh`. `nano` (Fun-ASR-Nano) and "
        "`funasr` (AutoModel with `folders.funasr`) need the extra `funasr`. `auto` is two, by a segment's length.",
    )
    auto_short: Literal["paraformer", "sensevoice", "nano"] = Field(
        default="sensevoice", description="With `auto`, what recognises segments of up to `auto_up_to_ms`."
    )
    auto_long: Literal["paraformer", "sensevoice", "nano"] = Field(
        default="paraformer", description="With `auto`, what recognises longer ones."
    )
    auto_up_to_ms: int = bounded(10_000, 100, 30_000, "With `auto`, the longest of short segments, with their edges.")
    device: str = Field(
        default="cpu",
        pattern=r"^(cpu|cuda(:\d+)?)$",
        description="Where PyTorch's engines run: `cpu`, `cuda`, `cuda:1`. Tested on CPUs only.",
    )
    folders: dict[str, Path] = Field(
        default={}, description="Folders to take models from as they are, by id: fine-tuned ones; sums are not checked."
    )
    dir: Path = Field(default=Path("~/.local/share/streamscribe/models"), description="Where models are installed.")
    threads: int = bounded(0, 0, 256, "Threads of a model step; 0: all cores, or one for the short steps of `tiny`.")
    compute_type: Literal["int8", "float32"] = Field(default="int8", description="Whisper's arithmetic.")
    max_batch_size: int = bounded(8, 1, 256, "Segments in one model step.")
    max_chunk_batch_size: int = bounded(64, 1, 1024, "Chunks of streams in one step of the first pass or the VAD.")
    max_batch_s: float = bounded(
        60, 1, 100_000, "Audio seconds in one step of segments: the longest times how many they are."
    )
    batch_wait_ms: float = bounded(
        5, 0, 1000, "How long a step waits for others to join; that of the VAD, which all others follow, waits 20 ms."
    )
    max_waiting_s: float = bounded(600, 1, 100_000, "Audio seconds that may wait for a model; beyond it sessions wait.")
    max_inflight: int = bounded(4096, 1, 1_000_000, "Requests that may wait for a model or be in its step.")
    max_failures: int = bounded(
        5, 1, 1000, "Steps in a row without an answer after which a model is tried out, and rests if that fails too."
    )
    max_memory_bytes: int = bounded(
        0, 0, 2**44, "Memory of the process beyond which no model is replaced while it serves; 0: all that is free."
    )
    swap_timeout_s: float = bounded(
        600, 1, 3600, "A new version of a model that is not loaded and warm after so long is refused."
    )
    step_timeout_s: float = bounded(
        60, 0.1, 3600, "A model whose step takes longer is not ready: what waits for it fails, until the step ends."
    )
    fake_cost_ms: float = bounded(0, 0, 10_000, "What a step of the fake model costs.")


class WorkerSettings(Section):
    """How a worker cuts and recognises."""

    silence_ms: int = bounded(
        800, MIN_SILENCE_MS, MAX_SILENCE_MS, "Silence that ends a segment, unless the client says."
    )
    max_segment_ms: int = bounded(
        MAX_SEGMENT_MS, MIN_SEGMENT_MS, MAX_SEGMENT_MS, "Longest segment, unless the client says."
    )
    min_speech_ms: int = bounded(
        0, MIN_SPEECH_MS, MAX_SPEECH_MS, "Shorter voice is no segment, unless the client says."
    )
    preroll_ms: int = bounded(300, 0, 2000, "Audio given to the model before the start of voice.")
    partial_interval_ms: int = bounded(500, 100, 10_000, "Shortest time of audio between two partials.")
    partial_window_ms: int = bounded(12_000, 2000, MAX_SEGMENT_MS, "Longest stretch that a partial decodes again.")
    max_pending_finals: int = bounded(
        4, 1, 64, "Segments of a live session waiting for their final; more audio waits. A file's fill three steps."
    )
    degrade: Literal["none", "first_pass"] = Field(
        default="none",
        description="`first_pass`: where the second pass is too late, a live session gets the text of the first again, "
        "marked `degraded`.",
    )
    degrade_after_ms: int = bounded(
        5000,
        100,
        60_000,
        "With `degrade`, how long a segment waits for its second pass; half of it ends the state. Without, a tenant "
        "of whose segments more than 5 % wait for longer for finalizers gets no new sessions.",
    )
    processes: int = bounded(
        0, 0, 256, "Worker processes of `serve`, each with its own models; 0: the server's process works itself."
    )
    hang_timeout_s: float = bounded(
        15,
        1,
        600,
        "A worker process that says nothing for so long, or whose model hangs so long, is ended; so is each role of a "
        "cluster that was ready and whose event loop stands still so long.",
    )
    health_host: str = Field(
        default="127.0.0.1",
        description="Where `streamscribe worker` tells how it is; other machines need a key for `/metrics`.",
    )
    health_port: int = bounded(8010, 0, 65535, "The port of that: `/readyz`, `/healthz`, `/metrics`; 0 a free one.")
    max_memory_bytes: int = bounded(
        0, 0, 2**50, "A worker process that has more resident memory is replaced; 0: never."
    )


class ObserveSettings(Section):
    """Logs."""

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe line logged."
    )
    log_format: Literal["json", "console"] = Field(default="json", description="For machines or for people.")
