"""What is kept, and what many processes share: caches, the session store, the log."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from streamscribe.settings.base import Section, bounded


class CacheSettings(Section):
    """What is kept so that nothing is computed twice. By default in memory only, and no transcripts."""

    max_encoder_entries: int = bounded(4096, 0, 1_000_000, "Encoder outputs kept in memory; 0: none.")
    max_encoder_bytes: int = bounded(512 * 2**20, 0, 2**40, "Bytes of them; 0: none.")
    max_feature_cache_size: int = bounded(
        256 * 2**20, 0, 2**40, "Bytes of spectral features in memory, and as many in `feature_cache_dir`; 0: none."
    )
    feature_cache_dir: Path | None = Field(
        default=None, description="Folder that keeps spectral features over restarts, for its owner's eyes only."
    )
    feature_ttl_s: float = bounded(
        7 * 24 * 3600, 1, 365 * 24 * 3600, "How long encoder outputs and spectral features are kept."
    )
    context_cache_ttl: float = bounded(
        0,
        0,
        24 * 3600,
        "Seconds for which Whisper, Fun-ASR-Nano and CT-Transformer are told what a session said before; 0: never.",
    )
    transcripts: bool = Field(default=False, description="Answer audio heard before with the text it had then.")
    max_transcript_bytes: int = bounded(64 * 2**20, 2**16, 2**40, "Bytes of texts, in memory and in `transcript_dir`.")
    transcript_ttl_s: float = bounded(7 * 24 * 3600, 1, 365 * 24 * 3600, "How long a text is kept.")
    transcript_dir: Path | None = Field(default=None, description="Folder that keeps texts over restarts.")
    redis_url: SecretStr | None = Field(
        default=None, description="Redis where servers of one `secret_file` share texts: `redis://host:6379/0`."
    )
    tenant_share: float = bounded(
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


class StoreSettings(Section):
    """Who owns which session, and how many a tenant has: kept by each process for itself, or in one Redis for all."""

    redis_url: SecretStr | None = Field(
        default=None,
        description="Redis that all gateways and workers share: `redis://host:6379/0`, 7.0 or later, with "
        "`maxmemory-policy noeviction`; needs the extra `redis`. None: each process for itself.",
    )
    admit_when_away: bool = Field(
        default=True,
        description="Whether gateways let sessions in, by their own quotas, for the first 5 s in which Redis does not "
        "answer. They are recognised when it is back.",
    )
    timeout_s: float = bounded(0.2, 0.01, 10, "A call that Redis does not answer for so long has failed.")
    max_connections: int = bounded(8, 1, 1000, "Connections of one process to Redis; more calls wait for one.")
    lease_ttl_s: float = bounded(2, 0.1, 60, "A worker that did not renew its leases for so long has lost them.")
    seat_ttl_s: float = bounded(
        15, 1, 100, "A session that its gateway did not keep for so long counts no more against its tenant's quota."
    )
    keep_s: float = bounded(
        3600, 120, 7 * 24 * 3600, "A session that neither gateway nor worker spoke of for so long is forgotten."
    )


class KafkaSettings(Section):
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
    gateway_number: int = bounded(
        -1,
        -1,
        9999,
        "Partition of `asr-results` that a gateway reads, and no other; -1: one that none has. One that another has "
        "ends the start.",
    )
    instance_id: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]{0,100}$",
        description="Name that a worker keeps over restarts, each its own: static membership. Empty: none.",
    )
    session_timeout_ms: int = bounded(
        2000, 500, 300_000, "A worker that is silent for so long loses its sessions to others."
    )
    max_poll_interval_ms: int = bounded(
        10_000, 1000, 600_000, "A worker whose event loop stands still for so long loses its sessions to others."
    )
    linger_ms: float = bounded(3, 0, 5, "How long a record waits for others to be sent with it.")
    fetch_wait_ms: int = bounded(10, 1, 1000, "How long a broker may hold back the answer that there is nothing new.")
    delivery_timeout_s: float = bounded(
        60, 1, 3600, "A record that no broker took for so long fails its session; until then, acks wait."
    )
    audio_partitions: int = bounded(
        64, 1, 10_000, "Partitions of `audio-chunks` and `final-results`: at least as many as workers."
    )
    result_partitions: int = bounded(64, 1, 10_000, "Partitions of `asr-results`: at least as many as gateways.")
    finalize_partitions: int = bounded(
        64, 1, 10_000, "Partitions of `offline-finalize`: at least as many as finalizers."
    )
    replication: int = bounded(3, 1, 10, "On how many brokers each topic lies.")
    retention_s: float = bounded(3600, 60, 30 * 24 * 3600, "How long the log keeps audio and results.")


class FinalizerSettings(Section):
    """Recognition of whole segments in processes of its own, in a cluster."""

    enabled: bool = Field(
        default=False,
        description="Whether workers leave whole segments to `streamscribe finalizer`s, and load no model for them.",
    )
    timeout_s: float = bounded(
        45, 1, 3600, "A segment of a live session that no finalizer answers for so long fails its session."
    )
    file_timeout_s: float = bounded(600, 1, 3600, "The same of a file, whose segments all live ones pass.")
    drain_timeout_s: float = bounded(20, 0, 600, "After SIGTERM a finalizer answers for so long what it has read.")
    health_host: str = Field(
        default="127.0.0.1", description="Where `streamscribe finalizer` tells how it is; `/metrics` as a worker's."
    )
    health_port: int = bounded(8020, 0, 65535, "The port of that: `/readyz`, `/healthz`, `/metrics`; 0 a free one.")
