"""One frozen, validated tree of settings. Sources, later wins: defaults, `streamscribe.yaml`, environment, flags.

Environment variables are `STREAMSCRIBE_` + path with `__` between levels (`STREAMSCRIBE_GATEWAY__PORT=8001`). Every
field has a unit in its name where it has one, and a documented bound; SECURITY.md's table is generated from here.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource
from pydantic_settings import SettingsError as SettingsSourceError

from streamscribe.core.nearest import did_you_mean
from streamscribe.core.options import (
    MAX_SEGMENT_MS,
    MAX_SILENCE_MS,
    MAX_SPEECH_MS,
    MIN_SEGMENT_MS,
    MIN_SILENCE_MS,
    MIN_SPEECH_MS,
)

DEFAULT_FILE = Path("streamscribe.yaml")


class SettingsError(ValueError):
    """A setting that is not valid; the message is one line that names the field and its bound."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _bounded(default: float, low: float, high: float, doc: str) -> Any:
    return Field(default=default, ge=low, le=high, description=doc)


class GatewaySettings(_Section):
    """The edge: where it listens and what it accepts."""

    host: str = Field(
        default="127.0.0.1", description="Address to listen on; other than loopback needs tenants_file or no_auth."
    )
    port: int = _bounded(8000, 0, 65535, "Port of HTTP and WebSocket; 0 takes a free one.")
    funasr_port: int = _bounded(10095, -1, 65535, "Port of the FunASR WebSocket; 0 takes a free one, -1 turns it off.")
    tenants_file: Path | None = Field(default=None, description="YAML file of tenants, hashed keys and quotas.")
    no_auth: bool = Field(default=False, description="Serve without keys on any address.")
    funasr_online_label: Literal["2pass-online", "online"] = Field(
        default="2pass-online", description="Label of partials in FunASR's mode `online` (C++ or Python server's)."
    )
    handshake_timeout_s: float = _bounded(10, 0.1, 60, "A request whose headers take longer is closed.")
    drain_timeout_s: float = _bounded(30, 0, 600, "Sessions still open so long after SIGTERM are closed.")
    drain_grace_s: float = _bounded(0, 0, 60, "Time between not-ready and go_away, for load balancers to notice.")


class LimitSettings(_Section):
    """Bounds on everything that a stranger can send or hold."""

    max_message_bytes: int = _bounded(4 * 2**20, 2**10, 2**26, "One WebSocket message; larger is closed 1009.")
    max_upload_bytes: int = _bounded(512 * 2**20, 2**10, 2**33, "One uploaded file, compressed.")
    max_files: int = _bounded(32, 1, 1000, "Files uploaded or recognised at once; one tenant may have half of them.")
    upload_timeout_s: float = _bounded(600, 1, 24 * 3600, "An upload that takes longer in all is given up.")
    max_decoded_s: float = _bounded(4 * 3600, 1, 24 * 3600, "Audio seconds decoded from one file.")
    max_decoded_bytes: int = _bounded(2 * 2**30, 2**16, 2**34, "Bytes decoded from one file, all channels, own rate.")
    decode_memory_bytes: int = _bounded(512 * 2**20, 64 * 2**20, 2**33, "Address space of the decoding child.")
    decode_stall_s: float = _bounded(20, 1, 600, "A decoding child that gives nothing for so long is killed.")
    max_sessions: int = _bounded(1000, 1, 100_000, "Sessions of one process, all tenants.")
    max_tenant_sessions: int = _bounded(500, 1, 100_000, "Sessions of one tenant whose file names no quota.")
    max_new_sessions_per_min: int = _bounded(
        6000, 1, 100_000, "Sessions that a tenant whose file names no number may begin within a minute."
    )
    max_session_s: float = _bounded(4 * 3600, 1, 48 * 3600, "Length of a session.")
    first_audio_timeout_s: float = _bounded(30, 0.1, 600, "A session without audio for so long is closed 4408.")
    idle_timeout_s: float = _bounded(30, 0.1, 3600, "A session without any message for so long is closed 4408.")
    finalize_timeout_s: float = _bounded(60, 0.1, 3600, "Without a final for so long after the end, the session fails.")
    resume_window_s: float = _bounded(30, 0, 600, "A session whose connection was lost can be resumed for so long.")
    slow_reader_timeout_s: float = _bounded(20, 0.1, 600, "A client that reads nothing for so long is closed 4408.")
    max_unread_bytes: int = _bounded(256 * 2**10, 2**12, 2**24, "Results held for one client that does not read.")
    max_rate: float = _bounded(2.0, 1.0, 1000.0, "Live audio in multiples of real time, after the burst.")
    burst_s: float = _bounded(10, 1, 600, "Audio seconds that may come at once.")
    max_burst_s: float = _bounded(300, 1, 3600, "Audio seconds ahead of the allowed rate that close a session 4429.")
    max_chunks_per_s: float = _bounded(2000, 10, 100_000, "Chunks per second of a live session; beyond it is paced.")
    max_backlog_s: float = _bounded(5, 0.5, 60, "Audio seconds of one session waiting for a worker.")
    reorder_window: int = _bounded(32, 0, 1024, "Chunks held while an earlier sequence is missing.")
    gap_timeout_s: float = _bounded(2, 0.1, 60, "A sequence missing for so long is an error.")
    replay_bytes: int = _bounded(2**20, 2**12, 2**26, "Results kept per session for a resume.")
    max_utilisation: float = _bounded(0.9, 0.05, 100, "New live sessions are refused where a model would be busier.")
    priority_reserve: float = _bounded(
        0.1, 0, 0.9, "Share of `max_utilisation` that is kept for tenants with `priority`, where there are any."
    )
    max_newcomers: int = _bounded(
        64, 1, 100_000, "Live sessions let in at once; more may come once these are measured: twice as many every 2 s."
    )
    max_lag_ms: float = _bounded(1000, 10, 60_000, "New live sessions are refused while 5 % of chunks take longer.")


class ModelSettings(_Section):
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
    auto_up_to_ms: int = _bounded(10_000, 100, 30_000, "With `auto`, the longest of short segments, with their edges.")
    device: str = Field(
        default="cpu",
        pattern=r"^(cpu|cuda(:\d+)?)$",
        description="Where PyTorch's engines run: `cpu`, `cuda`, `cuda:1`. Tested on CPUs only.",
    )
    folders: dict[str, Path] = Field(
        default={}, description="Folders to take models from as they are, by id: fine-tuned ones; sums are not checked."
    )
    dir: Path = Field(default=Path("~/.local/share/streamscribe/models"), description="Where models are installed.")
    threads: int = _bounded(0, 0, 256, "Threads of a model step; 0: all cores, or one for the short steps of `tiny`.")
    compute_type: Literal["int8", "float32"] = Field(default="int8", description="Whisper's arithmetic.")
    max_batch_size: int = _bounded(8, 1, 256, "Segments in one model step.")
    max_chunk_batch_size: int = _bounded(64, 1, 1024, "Chunks of streams in one step of the first pass or the VAD.")
    max_batch_s: float = _bounded(
        60, 1, 100_000, "Audio seconds in one step of segments: the longest times how many they are."
    )
    batch_wait_ms: float = _bounded(
        5, 0, 1000, "How long a step waits for others to join; that of the VAD, which all others follow, waits 20 ms."
    )
    max_waiting_s: float = _bounded(
        600, 1, 100_000, "Audio seconds that may wait for a model; beyond it sessions wait."
    )
    max_inflight: int = _bounded(4096, 1, 1_000_000, "Requests that may wait for a model or be in its step.")
    max_failures: int = _bounded(
        5, 1, 1000, "Steps in a row without an answer after which a model is tried out, and rests if that fails too."
    )
    max_memory_bytes: int = _bounded(
        0, 0, 2**44, "Memory of the process beyond which no model is replaced while it serves; 0: all that is free."
    )
    step_timeout_s: float = _bounded(
        60, 0.1, 3600, "A model whose step takes longer is not ready: what waits for it fails, until the step ends."
    )
    fake_cost_ms: float = _bounded(0, 0, 10_000, "What a step of the fake model costs.")


class WorkerSettings(_Section):
    """How a worker cuts and recognises."""

    silence_ms: int = _bounded(
        800, MIN_SILENCE_MS, MAX_SILENCE_MS, "Silence that ends a segment, unless the client says."
    )
    max_segment_ms: int = _bounded(
        MAX_SEGMENT_MS, MIN_SEGMENT_MS, MAX_SEGMENT_MS, "Longest segment, unless the client says."
    )
    min_speech_ms: int = _bounded(
        0, MIN_SPEECH_MS, MAX_SPEECH_MS, "Shorter voice is no segment, unless the client says."
    )
    preroll_ms: int = _bounded(300, 0, 2000, "Audio given to the model before the start of voice.")
    partial_interval_ms: int = _bounded(500, 100, 10_000, "Shortest time of audio between two partials.")
    partial_window_ms: int = _bounded(12_000, 2000, MAX_SEGMENT_MS, "Longest stretch that a partial decodes again.")
    max_pending_finals: int = _bounded(
        4, 1, 64, "Segments of a live session waiting for their final; more audio waits. A file's fill three steps."
    )
    degrade: Literal["none", "first_pass"] = Field(
        default="none",
        description="`first_pass`: where the second pass is too late, a live session gets the text of the first again, "
        "marked `degraded`.",
    )
    degrade_after_ms: int = _bounded(
        5000, 100, 60_000, "With `degrade`, how long a segment waits for its second pass; half of it ends the state."
    )
    processes: int = _bounded(
        0, 0, 256, "Worker processes of `serve`, each with its own models; 0: the server's process works itself."
    )
    hang_timeout_s: float = _bounded(
        15, 1, 600, "A worker process that says nothing for so long, or whose model hangs so long, is ended."
    )
    health_host: str = Field(default="127.0.0.1", description="Where `streamscribe worker` tells how it is.")
    health_port: int = _bounded(8010, 0, 65535, "The port of that: `/readyz`, `/healthz`, `/metrics`; 0 a free one.")
    max_memory_bytes: int = _bounded(
        0, 0, 2**50, "A worker process that has more resident memory is replaced; 0: never."
    )


class CacheSettings(_Section):
    """What is kept so that nothing is computed twice. By default in memory only, and no transcripts."""

    max_encoder_entries: int = _bounded(4096, 0, 1_000_000, "Encoder outputs kept in memory; 0: none.")
    max_encoder_bytes: int = _bounded(512 * 2**20, 0, 2**40, "Bytes of them; 0: none.")
    max_feature_cache_size: int = _bounded(
        256 * 2**20, 0, 2**40, "Bytes of spectral features in memory, and as many in `feature_cache_dir`; 0: none."
    )
    feature_cache_dir: Path | None = Field(
        default=None, description="Folder that keeps spectral features over restarts, for its owner's eyes only."
    )
    feature_ttl_s: float = _bounded(
        7 * 24 * 3600, 1, 365 * 24 * 3600, "How long encoder outputs and spectral features are kept."
    )
    context_cache_ttl: float = _bounded(
        0, 0, 24 * 3600, "Seconds for which Whisper is told what a session said before; 0: never."
    )
    transcripts: bool = Field(default=False, description="Answer audio heard before with the text it had then.")
    max_transcript_bytes: int = _bounded(64 * 2**20, 2**16, 2**40, "Bytes of texts, in memory and in `transcript_dir`.")
    transcript_ttl_s: float = _bounded(7 * 24 * 3600, 1, 365 * 24 * 3600, "How long a text is kept.")
    transcript_dir: Path | None = Field(default=None, description="Folder that keeps texts over restarts.")
    redis_url: SecretStr | None = Field(
        default=None, description="Redis where servers of one `secret_file` share texts: `redis://host:6379/0`."
    )
    tenant_share: float = _bounded(
        0.5, 0.01, 1, "How much of each cache one tenant may have, of those in `gateway.tenants_file`."
    )
    fingerprint: Literal["blake3", "hmac-sha256"] = Field(
        default="blake3", description="Hash by which audio is known; `hmac-sha256` is a FIPS algorithm, and slower."
    )
    secret_file: Path = Field(
        default=Path("~/.local/share/streamscribe/cache-secret"),
        description="The secret of all keys, made where there is none; used only if a cache outlives the process.",
    )

    @property
    def outlives_the_process(self) -> bool:
        """Whether anything is kept on disk or in Redis, so that keys must be the same after a restart."""
        keeps_texts = self.transcripts and (self.transcript_dir is not None or self.redis_url is not None)
        return self.feature_cache_dir is not None or keeps_texts


class StoreSettings(_Section):
    """Who owns which session, and how many a tenant has: kept by each process for itself, or in one Redis for all."""

    redis_url: SecretStr | None = Field(
        default=None,
        description="Redis that all gateways and workers share: `redis://host:6379/0`, 7.0 or later, with "
        "`maxmemory-policy noeviction`; needs the extra `redis`. None: each process for itself.",
    )
    admit_when_away: bool = Field(
        default=True, description="Whether gateways let sessions in, by their own quotas, while Redis does not answer."
    )
    timeout_s: float = _bounded(0.2, 0.01, 10, "A call that Redis does not answer for so long has failed.")
    max_connections: int = _bounded(8, 1, 1000, "Connections of one process to Redis; more calls wait for one.")
    lease_ttl_s: float = _bounded(2, 0.1, 60, "A worker that did not renew its leases for so long has lost them.")
    seat_ttl_s: float = _bounded(
        15, 1, 100, "A session that its gateway did not keep for so long counts no more against its tenant's quota."
    )
    keep_s: float = _bounded(
        3600, 120, 7 * 24 * 3600, "A session that neither gateway nor worker spoke of for so long is forgotten."
    )


class KafkaSettings(_Section):
    """The log between gateways and workers on many machines; needs the extra `kafka`."""

    brokers: str = Field(
        default="", description="Where to find the cluster: `host:port`, or several with commas; empty: no Kafka."
    )
    options: dict[str, SecretStr] = Field(
        default={}, description="More of librdkafka's properties, as `security.protocol` and `sasl.password`."
    )
    topic_prefix: str = Field(
        default="", pattern=r"^[A-Za-z0-9._-]{0,100}$", description="Put before the names of all topics and groups."
    )
    gateway_number: int = _bounded(
        -1,
        -1,
        9999,
        "Partition of `asr-results` that a gateway reads, best its own; -1: by its name. Of two with one number each "
        "reads the other's results in vain.",
    )
    instance_id: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]{0,100}$",
        description="Name that a worker keeps over restarts, each its own: static membership. Empty: none.",
    )
    session_timeout_ms: int = _bounded(
        2000, 500, 300_000, "A worker that is silent for so long loses its sessions to others."
    )
    max_poll_interval_ms: int = _bounded(
        10_000, 1000, 600_000, "A worker whose event loop stands still for so long loses its sessions to others."
    )
    linger_ms: float = _bounded(3, 0, 5, "How long a record waits for others to be sent with it.")
    fetch_wait_ms: int = _bounded(10, 1, 1000, "How long a broker may hold back the answer that there is nothing new.")
    delivery_timeout_s: float = _bounded(
        60, 1, 3600, "A record that no broker took for so long fails its session; until then, acks wait."
    )
    audio_partitions: int = _bounded(64, 1, 10_000, "Partitions of `audio-chunks`: at least as many as workers.")
    result_partitions: int = _bounded(64, 1, 10_000, "Partitions of `asr-results`: at least as many as gateways.")
    finalize_partitions: int = _bounded(
        64, 1, 10_000, "Partitions of `offline-finalize`: at least as many as finalizers."
    )
    replication: int = _bounded(3, 1, 10, "On how many brokers each topic lies.")
    retention_s: float = _bounded(3600, 60, 30 * 24 * 3600, "How long the log keeps audio and results.")


class ObserveSettings(_Section):
    """Logs."""

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe line logged."
    )
    log_format: Literal["json", "console"] = Field(default="json", description="For machines or for people.")


class Settings(BaseSettings):
    """The whole tree; build it with `load`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="STREAMSCRIBE_", env_nested_delimiter="__", env_ignore_empty=True
    )

    gateway: GatewaySettings = GatewaySettings()
    limits: LimitSettings = LimitSettings()
    model: ModelSettings = ModelSettings()
    worker: WorkerSettings = WorkerSettings()
    cache: CacheSettings = CacheSettings()
    store: StoreSettings = StoreSettings()
    kafka: KafkaSettings = KafkaSettings()
    observe: ObserveSettings = ObserveSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags over environment over file."""
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls)


def load(file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Reads and validates the tree; `overrides` maps dotted paths (`gateway.port`) to values and wins over all.

    A `file` that is named must exist; without one, `streamscribe.yaml` of the working folder is read where it is there.
    The Redis of `REDIS_URL` is the store's, and the cache's too where texts are kept and the cache has no other.
    Raises SettingsError whose message is one line: field, what is wrong, what was given.
    """
    if file is not None and not file.is_file():
        raise SettingsError(f"settings file {file}: no such file")

    class Loaded(Settings):
        model_config = SettingsConfigDict(yaml_file=file or DEFAULT_FILE, yaml_file_encoding="utf-8")

    flags = {_KEPT_NAMES[name]: value for name, value in os.environ.items() if name in _KEPT_NAMES and value}
    flags.update(overrides or {})
    try:
        settings = Loaded(**_nested(flags))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            told = f"setting {field}: there is none of this name; docs/settings.md has all"
            raise SettingsError(f"{told}{did_you_mean(field, _names())}") from None
        given = repr(first["input"])[:80]
        raise SettingsError(f"setting {field}: {' '.join(first['msg'].split())} (given: {given})") from None
    except (yaml.YAMLError, SettingsSourceError, OSError, ValueError, TypeError) as error:
        raise SettingsError(f"settings file {file or DEFAULT_FILE}: {' '.join(str(error).split())}") from None
    cache = settings.cache
    if cache.transcripts and cache.redis_url is None and os.environ.get("REDIS_URL"):
        shared = cache.model_copy(update={"redis_url": SecretStr(os.environ["REDIS_URL"])})
        return settings.model_copy(update={"cache": shared})
    return settings


_KEPT_NAMES = {
    "MAX_BATCH_SIZE": "model.max_batch_size",
    "BATCH_WAIT_MS": "model.batch_wait_ms",
    "MAX_INFLIGHT": "model.max_inflight",
    "REDIS_URL": "store.redis_url",
    "KAFKA_BROKERS": "kafka.brokers",
}
"""Environment names that operators know already; `REDIS_URL` lends its Redis to the cache too, as `load` says."""


def _names() -> Iterator[str]:
    """The dotted paths of all sections and settings."""
    for section, info in Settings.model_fields.items():
        yield section
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from (f"{section}.{name}" for name in info.annotation.model_fields)


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, leaf = path.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return tree
