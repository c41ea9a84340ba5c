"""What is counted, by the names that dashboards know."""

import asyncio
from dataclasses import dataclass

from streamscribe.core.errors import QuotaExceeded
from streamscribe.core.ids import TenantId
from streamscribe.observe.loop import probe_event_loop
from streamscribe.observe.metrics import MAX_TENANTS, OTHER_TENANTS, Metrics

ACME = TenantId("acme")


@dataclass(frozen=True)
class Step:
    name: str = "whisper"
    batch_size: int = 3
    queue_wait_s: float = 0.02
    step_s: float = 0.5
    audio_s: float = 5.0
    failed: int = 1
    out_of_memory: int = 2


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_the_names_that_dashboards_know_are_there() -> None:
    metrics = Metrics()
    metrics.session_opened(ACME)
    metrics.stream_opened(ACME)
    metrics.first_partial_sent(0.3)
    metrics.partial_sent(0.5)
    metrics.final_sent(ACME, 0.8, 1, False)
    metrics.final_sent(ACME, None, 2, True)
    metrics.hotwords_sought(ACME, found=True)
    metrics.hotwords_sought(ACME, found=True)
    metrics.hotwords_sought(ACME, found=False)
    metrics.hotwords_sought(ACME, found=True)
    metrics.segment_empty(ACME)
    metrics.segment_failed(ACME)
    metrics.first_pass_failed(ACME)
    metrics.segment_degraded(ACME)
    metrics.segment_recognised(2.0, 0.4)
    metrics.session_refused(QuotaExceeded())
    metrics.session_failed(QuotaExceeded())
    metrics.step_done(Step())
    metrics.warmed_up("whisper", 2.5)
    metrics.loop_lagged(0.002)
    metrics.session_shed("utilisation")
    metrics.inflight_watched("whisper", lambda: 7)
    metrics.utilisation_watched("whisper", lambda: 0.25)
    metrics.lag_watched("whisper", lambda: 0.12)
    text, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    for line in (
        'funasr_active_sessions{tenant="acme"} 1.0',
        "funasr_active_streams 1.0",
        'funasr_hotword_hit_ratio{tenant="acme"} 0.75',
        'streamscribe_hotword_finals_total{hit="no",tenant="acme"} 1.0',
        'streamscribe_first_pass_failures_total{tenant="acme"} 1.0',
        'streamscribe_degraded_segments_total{tenant="acme"} 1.0',
        "funasr_first_token_latency_ms_sum 300.0",
        "funasr_partial_update_interval_ms_sum 500.0",
        'funasr_final_latency_ms_sum{pass="1"} 800.0',
        'funasr_final_latency_ms_count{pass="1"} 1.0',
        'funasr_rtf_sum{model="whisper"} 0.1',
        'funasr_queue_wait_ms_sum{model="whisper"} 20.0',
        'funasr_final_results_total{status="ok",tenant="acme"} 1.0',
        'funasr_final_results_total{status="empty",tenant="acme"} 1.0',
        'funasr_final_results_total{status="failed",tenant="acme"} 1.0',
        'streamscribe_refused_sessions_total{code="quota_exceeded"} 1.0',
        'streamscribe_failed_sessions_total{code="quota_exceeded"} 1.0',
        'streamscribe_step_failures_total{model="whisper"} 1.0',
        'streamscribe_step_batch_size_sum{model="whisper"} 3.0',
        'streamscribe_warmup_seconds{model="whisper"} 2.5',
        'streamscribe_step_oom_total{model="whisper"} 2.0',
        'funasr_gpu_inflight{model="whisper"} 7.0',
        'streamscribe_model_utilisation{model="whisper"} 0.25',
        'streamscribe_lag_p95_ms{where="whisper"} 120.0',
        'streamscribe_shed_sessions_total{reason="utilisation"} 1.0',
    ):
        assert line in text.decode().splitlines(), line
    metrics.session_released(ACME)
    metrics.stream_closed(ACME)
    assert value(metrics, "funasr_active_sessions", tenant="acme") == 0
    assert value(metrics, "funasr_active_streams") == 0


def test_two_processes_worth_of_metrics_do_not_meet() -> None:
    first, second = Metrics(), Metrics()
    first.session_opened(ACME)
    assert value(second, "funasr_active_sessions", tenant="acme") is None


def test_tenants_without_end_do_not_make_labels_without_end() -> None:
    metrics = Metrics()
    for number in range(MAX_TENANTS + 50):
        metrics.session_opened(TenantId(f"t{number}"))
        metrics.session_released(TenantId(f"t{number}"))
        metrics.final_sent(TenantId(f"t{number}"), None, 2, True)
    text = metrics.render()[0].decode()
    assert text.count("funasr_active_sessions{") == MAX_TENANTS + 1
    assert value(metrics, "funasr_final_results_total", tenant=OTHER_TENANTS, status="ok") == 50


async def test_the_probe_sees_a_blocked_event_loop() -> None:
    lags: list[float] = []
    task = asyncio.create_task(probe_event_loop(lags.append))
    while not lags:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    assert all(lag >= 0 for lag in lags)
