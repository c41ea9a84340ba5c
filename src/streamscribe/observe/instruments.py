"""The instruments of `observe.metrics` by subject, each in the registry that it is given."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

UTILISATION = "streamscribe_model_utilisation"
LAG_P95_MS = "streamscribe_lag_p95_ms"

_LATENCY_MS = (25, 50, 100, 200, 400, 700, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000)
_STEP_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
_RTF = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 5)
_BATCH = (1, 2, 4, 8, 16, 32, 64, 128)


class SessionInstruments:
    """Who is served, and who is not."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.active = Gauge(
            "funasr_active_sessions", "Sessions open, with or without a connection.", ["tenant"], registry=registry
        )
        self.streams = Gauge("funasr_active_streams", "Sessions that a worker holds.", registry=registry)
        self.refused = Counter(
            "streamscribe_refused_sessions", "Sessions and resumes not let in.", ["code"], registry=registry
        )
        self.failed = Counter(
            "streamscribe_failed_sessions", "Sessions that ended with an error.", ["code"], registry=registry
        )
        self.shed = Counter(
            "streamscribe_shed_sessions", "Sessions refused for the load, by reason.", ["reason"], registry=registry
        )
        self.stopped = Gauge(
            "streamscribe_stopped_sessions",
            "Live sessions that are read no further, as their audio has no room at workers.",
            registry=registry,
        )


class ResultInstruments:
    """What is told, and how soon."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.first_token_ms = Histogram(
            "funasr_first_token_latency_ms",
            "From the start of voice to the first partial.",
            buckets=_LATENCY_MS,
            registry=registry,
        )
        self.partial_interval_ms = Histogram(
            "funasr_partial_update_interval_ms",
            "Between two partials of a segment.",
            buckets=_LATENCY_MS,
            registry=registry,
        )
        self.final_ms = Histogram(
            "funasr_final_latency_ms",
            "From the end of voice to a pass's final.",
            ["pass"],
            buckets=_LATENCY_MS,
            registry=registry,
        )
        self.segment_s = Histogram(
            "streamscribe_segment_seconds",
            "What a final's decode took, its waiting included.",
            buckets=_STEP_S,
            registry=registry,
        )
        self.finals = Counter(
            "funasr_final_results", "Segments that ended: ok, empty or failed.", ["tenant", "status"], registry=registry
        )
        self.first_pass_failures = Counter(
            "streamscribe_first_pass_failures",
            "Segments whose first pass failed, so that their text came with the second.",
            ["tenant"],
            registry=registry,
        )
        self.degraded = Counter(
            "streamscribe_degraded_segments",
            "Live segments that got the text of their first pass again, as the second came too late.",
            ["tenant"],
            registry=registry,
        )
        self.other_models = Counter(
            "streamscribe_takeovers_other_models",
            "Sessions that were taken over by a worker with other versions of models than they had been heard with.",
            registry=registry,
        )
        self.hotword_finals = Counter(
            "streamscribe_hotword_finals",
            "Finals with text of sessions that have hot words, by whether they have at least one of them.",
            ["tenant", "hit"],
            registry=registry,
        )
        self.transcript_lookups = Counter(
            "streamscribe_transcript_lookups",
            "Finals looked up among the transcripts that are kept.",
            ["result"],
            registry=registry,
        )
        self.hotword_ratio = Gauge(
            "funasr_hotword_hit_ratio",
            "Share of such finals that have at least one hot word, since the start.",
            ["tenant"],
            registry=registry,
        )


class StepInstruments:
    """What each step of a model was."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, doc: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, doc, ["model"], buckets=buckets, registry=registry)

        self.seconds = histogram("streamscribe_step_seconds", "What a model step took.", _STEP_S)
        self.batch_size = histogram("streamscribe_step_batch_size", "Requests in a model step.", _BATCH)
        self.queue_wait_ms = histogram("funasr_queue_wait_ms", "Longest wait in a step's batch.", _LATENCY_MS)
        self.rtf = histogram("funasr_rtf", "Compute time of a step over the audio in it.", _RTF)
        self.failures = Counter(
            "streamscribe_step_failures", "Requests of model steps that failed.", ["model"], registry=registry
        )
        self.ejections = Counter(
            "streamscribe_model_ejections",
            "How often a model was not ready any more, by cause: failed, stalled, out_of_memory.",
            ["model", "cause"],
            registry=registry,
        )
        self.swaps = Counter(
            "streamscribe_model_swaps",
            "Models replaced while they served, and versions that were not taken: by reason.",
            ["role", "result"],
            registry=registry,
        )
        self.out_of_memory = Counter(
            "streamscribe_step_oom", "Model steps that ran out of memory.", ["model"], registry=registry
        )


class LoadInstruments:
    """How busy models and the event loop are, and how long the models took to be ready."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.inflight = Gauge(
            "funasr_gpu_inflight", "Requests that wait for a model or are in its step.", ["model"], registry=registry
        )
        self.utilisation = Gauge(
            UTILISATION,
            "Share of a model's time that live sessions would take in full steps.",
            ["model"],
            registry=registry,
        )
        self.lag_p95_ms = Gauge(
            LAG_P95_MS,
            "From the arrival of a live chunk at a model to its step's end; of timers in the event loop.",
            ["where"],
            registry=registry,
        )
        self.loop_lag_s = Histogram(
            "streamscribe_event_loop_lag_seconds",
            "How late the event loop ran a timer.",
            buckets=_STEP_S,
            registry=registry,
        )
        self.warmup_s = Gauge("streamscribe_warmup_seconds", "Warm-up of a model.", ["model"], registry=registry)
