"""What encoding before admission saves where clips come again, and what it costs where none does."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import mean, median

from streamscribe.bench.after_admission import EncodeAfterAdmission
from streamscribe.bench.replay_load import Pass, Recognise, drive, request_of, requests_of
from streamscribe.bench.replay_stage import Telemetry, after_admission, before_admission
from streamscribe.bench.replay_workload import Workload
from streamscribe.bench.text import corpus_error_rate, counts_characters
from streamscribe.core.ids import TenantId
from streamscribe.encoder.encoding import Lookup
from streamscribe.models.ports import EncoderDecoder, SegmentRequest

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Engines:
    """One model twice: set up for two steps side by side, and for one that has all threads."""

    apart: EncoderDecoder
    whole: EncoderDecoder


Open = Callable[[], AbstractContextManager[Recognise]]

_STRANGER = TenantId("warm-up")
"""What its requests leave in a cache is found by no others."""


def serial_texts(engine: EncoderDecoder, workload: Workload) -> tuple[str, ...]:
    """Of all arrivals, each clip recognised once, alone and without any queue. Blocks."""
    alone = EncodeAfterAdmission(engine)
    texts = [alone.recognize([request_of(clip)])[0].text for clip in workload.clips]
    return tuple(texts[clip] for clip in workload.order)


async def replayed(engines: Engines, workload: Workload, serial: Sequence[str], *, at_once: int) -> Figures:
    """Without reuse, cold, warm, warm again, and without reuse again: what drifts meanwhile cancels out."""
    requests = requests_of(workload)
    whole = EncodeAfterAdmission(engines.whole)
    none = [await _alone(lambda: after_admission(whole), requests, at_once)]
    figures, warm = await reused(engines.apart, workload, serial, at_once=at_once, warm=2)
    none.append(await _alone(lambda: after_admission(whole), requests, at_once))
    gain, bound = _per_s(warm) / _per_s(none), 1 / (1 - whole.encode_share)
    return figures | {
        "requests": len(requests),
        "clips": len(workload.clips),
        "no_reuse_per_s": _per_s(none),
        "no_reuse_p99_ms": mean(one.percentile_ms(99) for one in none),
        "warm_per_s": _per_s(warm),
        "warm_p99_ms": mean(one.percentile_ms(99) for one in warm),
        "encode_share": whole.encode_share,
        "cold_gain": figures["cold_per_s"] / _per_s(none),
        "warm_gain": gain,
        "warm_gain_bound": bound,
        "warm_gain_over_bound": gain / bound,
        "warm_gain_of_processor_time": _cpu_s(none) / _cpu_s(warm),
        "warm_noise_percent": _noise_percent(warm),
        "no_reuse_noise_percent": _noise_percent(none),
    }


async def reused(
    engine: EncoderDecoder, workload: Workload, serial: Sequence[str], *, at_once: int, warm: int
) -> tuple[Figures, list[Pass]]:
    """Who was spared an encoding in a cold pass and so many `warm` ones, whose times are told as well."""
    requests = requests_of(workload)
    telemetry = Telemetry()
    with before_admission(engine, telemetry, cached=True) as recognise:
        await _warm_up(recognise, requests)
        telemetry.clear()
        cold = await drive(recognise, requests, at_once=at_once)
        figures = _cold(workload, cold, serial, telemetry)
        telemetry.clear()
        passes = [await drive(recognise, requests, at_once=at_once) for _ in range(warm)]
    return figures | {
        "warm_hits": telemetry.lookups[Lookup.HIT] / warm,
        "warm_not_hits": float(warm * len(requests) - telemetry.lookups[Lookup.HIT]),
        "warm_encodes": float(telemetry.encodes),
        "warm_other_texts": float(max(_others(one.texts, serial) for one in passes)),
    }, passes


async def unique(engines: Engines, workload: Workload, *, at_once: int, rounds: int) -> Figures:
    """Each clip once, cold. In a round: after admission, service, without cache twice, service, after admission."""
    requests = [request_of(clip) for clip in workload.clips]
    telemetry = Telemetry()

    async def service(*, cached: bool) -> Pass:
        return await _alone(lambda: before_admission(engines.apart, telemetry, cached=cached), requests, at_once)

    async def after() -> Pass:
        return await _alone(lambda: after_admission(EncodeAfterAdmission(engines.whole)), requests, at_once)

    turns = []
    for _ in range(rounds):
        afters, on = [await after()], [await service(cached=True)]
        off = [await service(cached=False) for _ in range(2)]
        on.append(await service(cached=True))
        afters.append(await after())
        turns.append((afters, on, off))
    return {
        "unique_reused": float(telemetry.lookups[Lookup.HIT] + telemetry.lookups[Lookup.MERGED]),
        "unique_mean_batch": telemetry.mean_batch,
        "unique_after_per_s": median(_per_s(afters) for afters, _, _ in turns),
        "unique_service_per_s": median(_per_s(on) for _, on, _ in turns),
        "unique_after_p99_ms": median(_p99_ms(afters) for afters, _, _ in turns),
        "unique_service_p99_ms": median(_p99_ms(on) for _, on, _ in turns),
        "unique_throughput_over_after": median(_per_s(on) / _per_s(afters) for afters, on, _ in turns),
        "unique_p99_over_after": median(_p99_ms(on) / _p99_ms(afters) for afters, on, _ in turns),
        "unique_cache_on_over_off": median(_per_s(on) / _per_s(off) for _, on, off in turns),
        "unique_after_over_service_of_processor_time": median(_cpu_s(a) / _cpu_s(on) for a, on, _ in turns),
        "unique_off_over_on_of_processor_time": median(_cpu_s(off) / _cpu_s(on) for _, on, off in turns),
        "unique_service_noise_percent": median(_noise_percent(on) for _, on, _ in turns),
        "unique_after_noise_percent": median(_noise_percent(afters) for afters, _, _ in turns),
    }


def _cold(workload: Workload, cold: Pass, serial: Sequence[str], telemetry: Telemetry) -> Figures:
    found = telemetry.lookups
    reused = found[Lookup.HIT] + found[Lookup.MERGED]
    said = [workload.clips[clip].text for clip in workload.order]
    serial_rate, cold_rate = _error_rate(said, serial), _error_rate(said, cold.texts)
    return {
        "cold_misses": float(found[Lookup.MISS]),
        "cold_hits": float(found[Lookup.HIT]),
        "cold_merged": float(found[Lookup.MERGED]),
        "cold_second_looks": float(telemetry.second_looks),
        "cold_misses_off": float(abs(found[Lookup.MISS] - len(workload.clips))),
        "cold_reuse_off": float(abs(reused - workload.repeats)),
        "cold_other_texts": float(_others(cold.texts, serial)),
        "cold_error_rate": cold_rate,
        "cold_error_rate_off": abs(cold_rate - serial_rate),
        "cold_mean_batch": telemetry.mean_batch,
        "cold_per_s": cold.per_s,
        "cold_p99_ms": cold.percentile_ms(99),
    }


async def _alone(stage: Open, requests: Sequence[SegmentRequest], at_once: int) -> Pass:
    """A pass of a stage that is made for it."""
    with stage() as recognise:
        await _warm_up(recognise, requests)
        return await drive(recognise, requests, at_once=at_once)


async def _warm_up(recognise: Recognise, requests: Sequence[SegmentRequest]) -> None:
    first = requests[0]
    await recognise(SegmentRequest(first.samples, first.language, tenant_id=_STRANGER))


def _error_rate(said: Sequence[str], heard: Sequence[str]) -> float:
    """Words where scripts have spaces, characters in the others: all errors over all of what was said."""
    pairs = list(zip(said, heard, strict=True))
    rates = []
    for characters in (False, True):
        chosen = [pair for pair in pairs if counts_characters(pair[0]) is characters]
        if chosen:
            rates.append(corpus_error_rate([text for text, _ in chosen], [text for _, text in chosen]) * len(chosen))
    return sum(rates) / len(pairs)


def _others(texts: Sequence[str], serial: Sequence[str]) -> int:
    return sum(text != other for text, other in zip(texts, serial, strict=True))


def _per_s(passes: Sequence[Pass]) -> float:
    """Of all passes together."""
    return sum(len(one.texts) for one in passes) / sum(one.elapsed_s for one in passes)


def _p99_ms(passes: Sequence[Pass]) -> float:
    return mean(one.percentile_ms(99) for one in passes)


def _cpu_s(passes: Sequence[Pass]) -> float:
    """A request's processor time."""
    return sum(one.cpu_s for one in passes) / sum(len(one.texts) for one in passes)


def _noise_percent(passes: Sequence[Pass]) -> float:
    """How far the throughput of the same twice differs."""
    return 100 * abs(passes[1].per_s / passes[0].per_s - 1)
