"""`streamscribe bench`: measurements that anyone can repeat, held against the project's own bars."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from streamscribe.bench.kinds import Engine, Part, Size
from streamscribe.cli import bench_cluster
from streamscribe.cli.measured import tell
from streamscribe.cli.options import (
    BatchesOption,
    CheckOption,
    ChunkEngineOption,
    FolderOption,
    JsonOption,
    LatencyOption,
    LevelsOption,
    ManifestOption,
    MinutesOption,
    ModeOption,
    OracleOption,
    OthersOption,
    PartsOption,
    ProfileOption,
    PromptsOption,
    RoundsOption,
    SecondsOption,
    SessionsOption,
    SetOption,
    SilentMinutesOption,
    SizeOption,
    SmallOption,
    SpeechOption,
    StepThreadsOption,
    SwapProfileOption,
    SwapsOption,
    TogetherOption,
    TwoPassProfileOption,
    UrlOption,
    WorkloadOption,
    numbers,
    require_models,
    settings_from,
)
from streamscribe.cli.output import Exit, fail
from streamscribe.core.counted import counted
from streamscribe.core.options import Latency, Mode

if TYPE_CHECKING:
    from streamscribe.bench.corpus import Utterance

app = typer.Typer(
    help="Measure, as a table or `--json`; `--check` exits 1 where a bar of the project does not hold.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

app.add_typer(bench_cluster.app)

KEY = "STREAMSCRIBE_KEY"


@app.command()
def accuracy(
    manifest: ManifestOption = None,
    prompts: PromptsOption = 60,
    url: UrlOption = None,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Word and character error rates through the running service, beside the bare engine's.

    Without a manifest it is measured on telephone prompts of 6 words or more.

    Examples:

    ```
    streamscribe bench accuracy --prompts 60 --check
    streamscribe bench accuracy --manifest recordings.jsonl --json
    ```
    """
    settings = settings_from(None, None)
    require_models(settings, *(() if manifest else ("telephone-prompts",)))
    from streamscribe.bench import accuracy as bench

    key = os.environ.get(KEY)
    run = partial(bench.run, settings, manifest=manifest, prompts=prompts, url=_http(url), key=key)
    tell("recognising", run, json, check)


@app.command()
def gateway(
    sessions: SessionsOption = 200,
    seconds: SecondsOption = 10,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Latency, processor and memory that the gateway adds to live sessions.

    Examples:

    ```
    streamscribe bench gateway --check
    streamscribe bench gateway --sessions 1000 --seconds 60 --json
    ```
    """
    from streamscribe.bench import gateway as bench

    run = partial(bench.run, sessions=sessions, seconds=seconds)
    tell(f"{counted(sessions, 'session')} for {seconds:g} s, twice", run, json, check)


@app.command()
def streams(
    sessions: SessionsOption = 150,
    seconds: SecondsOption = 30,
    mode: ModeOption = Mode.TWO_PASS,
    latency: LatencyOption = Latency.BALANCED,
    set_: SetOption = None,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Real-time streams through the whole server on the small models: lag of partials and finals, and the text.

    All places are taken: how long one session more waits to be refused is measured too.

    Examples:

    ```
    streamscribe bench streams --check
    streamscribe bench streams --sessions 300 --mode online --json
    ```
    """
    from streamscribe.bench import streams as bench

    run = partial(bench.run, sessions=sessions, seconds=seconds, mode=mode, latency=latency, sets=set_ or ())
    tell(f"{counted(sessions, 'session')} for {seconds:g} s", run, json, check)


@app.command()
def step(
    engine: ChunkEngineOption = Engine.ONNX,
    model: SizeOption = Size.TINY,
    batches: BatchesOption = "1,2,4,8,16",
    threads: StepThreadsOption = 0,
    rounds: RoundsOption = 7,
    oracle: OracleOption = False,
    folder: FolderOption = None,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """What a chunk costs a session, by how many sessions share a step of the streaming model.

    Examples:

    ```
    streamscribe bench step
    streamscribe bench step --engine torch --model real --batches 1,16 --folder /tmp/real --check
    streamscribe bench step --model real --batches 16 --oracle --folder /tmp/real --check
    ```
    """
    if oracle and model is not Size.REAL:
        fail("--oracle: needs --model real", Exit.USAGE)
    from streamscribe.bench import step as bench

    run = partial(bench.run, size=model, engine=engine, batches=numbers(batches), threads=threads)
    tell("stepping", partial(run, rounds=rounds, oracle=oracle, folder=folder), json, check)


@app.command()
def stack(
    engine: ChunkEngineOption = Engine.ONNX,
    model: SizeOption = Size.TINY,
    sessions: TogetherOption = 16,
    seconds: SpeechOption = 12,
    threads: StepThreadsOption = 0,
    rounds: RoundsOption = 3,
    folder: FolderOption = None,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """What the platform leaves of the bare model's throughput, with the same sessions.

    Examples:

    ```
    streamscribe bench stack
    streamscribe bench stack --model real --folder /tmp/real --check
    ```
    """
    from streamscribe.bench import stack as bench

    run = partial(bench.run, size=model, engine=engine, sessions=sessions, seconds=seconds, threads=threads)
    tell(f"{counted(sessions, 'session')} of {seconds:g} s", partial(run, rounds=rounds, folder=folder), json, check)


@app.command()
def endurance(
    minutes: MinutesOption = 60,
    profile: ProfileOption = "tiny",
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Whether the last minutes of one long stream cost what the first did, in time and in memory.

    Examples:

    ```
    streamscribe bench endurance --minutes 60 --check
    ```
    """
    settings = settings_from(None, None, model__profile=profile, observe__log_level="error")
    from streamscribe.bench import endurance as bench

    tell(f"{minutes} minutes", partial(bench.run, settings, minutes=minutes), json, check)


@app.command()
def text(json: JsonOption = False, check: CheckOption = False) -> None:
    """Whether numbers are written as the tables say, and what it costs to finish a text.

    Examples:

    ```
    streamscribe bench text --check
    ```
    """
    from streamscribe.bench import text_rules as bench

    tell("finishing texts", bench.run, json, check)


@app.command()
def passes(
    manifest: ManifestOption = None,
    profile: TwoPassProfileOption = "tiny",
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """What both passes hear of recordings cut tight to their speech, beside the second pass's engine alone.

    Without a manifest it is measured on the recordings of the package.

    Examples:

    ```
    streamscribe bench passes --check
    streamscribe bench passes --manifest recordings.jsonl --profile zh --json
    ```
    """
    settings = settings_from(None, None, model__profile=profile)
    require_models(settings)
    from streamscribe.bench import passes as bench

    tell("recognising", partial(bench.run, settings, _said(manifest)), json, check)


@app.command()
def hotwords(
    recordings: OthersOption = None,
    profile: TwoPassProfileOption = "tiny",
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """How many rare names a list of them brings about, and what it spoils where none is said.

    Examples:

    ```
    streamscribe bench hotwords --check
    streamscribe bench hotwords --recordings clips.jsonl --json
    ```
    """
    settings = settings_from(None, None, model__profile=profile)
    require_models(settings)
    from streamscribe.bench import hotwords as bench

    tell("recognising", partial(bench.run, settings, _said(recordings)), json, check)


@app.command()
def replay(
    workload: WorkloadOption = "synthetic",
    small: SmallOption = False,
    part: PartsOption = None,
    rounds: RoundsOption = 1,
    levels: LevelsOption = False,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """What reuse saves: clips that come again, 32 at a time, on Whisper; and what the encoder service costs.

    Parts:

    - `stub`: the service over an encoder of known cost
    - `reuse`: the workload without reuse, cold and warm
    - `unique`: each clip once
    - `restart`: a server's first request

    Examples:

    ```
    streamscribe bench replay --small --check
    streamscribe bench replay --workload requests.jsonl --part reuse --json
    streamscribe bench replay --small --levels
    ```
    """
    settings = settings_from(None, None, model__profile="whisper")
    parts = part or list(Part)
    from streamscribe.bench import replay as bench

    if levels or set(parts) != {Part.STUB}:
        require_models(settings, *(("telephone-prompts",) if workload == bench.SYNTHETIC else ()))
    if levels:
        run = partial(bench.run_levels, settings.model, workload=workload, small=small)
    else:
        run = partial(bench.run, settings.model, workload=workload, small=small, parts=parts, rounds=rounds)
    tell("replaying", run, json, check)


@app.command()
def swap(
    profile: SwapProfileOption = "tiny",
    sessions: SessionsOption = 20,
    swaps: SwapsOption = 3,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Whether models can be replaced under live streams: what is lost, how long it takes, and how much memory.

    Examples:

    ```
    streamscribe bench swap --check
    streamscribe bench swap --profile whisper --swaps 10 --json
    ```
    """
    if profile == "fake":
        fail("--profile: the fake models cannot be replaced", Exit.USAGE)
    settings = settings_from(None, None, model__profile=profile)
    require_models(settings, *(("telephone-prompts",) if profile == "whisper" else ()))
    from streamscribe.bench import swap as bench

    run = partial(bench.run, settings, sessions=sessions, swaps=swaps)
    tell(f"{counted(sessions, 'session')} while models are replaced {counted(swaps, 'time')}", run, json, check)


@app.command()
def silence(
    minutes: SilentMinutesOption = 10,
    profile: ProfileOption = None,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Whether a long silence costs what its first minute did, says nothing, and leaves the speech after it whole.

    Examples:

    ```
    streamscribe bench silence --check
    streamscribe bench silence --minutes 60 --json
    ```
    """
    settings = settings_from(None, None, model__profile=profile, observe__log_level="error")
    require_models(settings, *(() if settings.model.profile == "fake" else ("demo-recordings",)))
    from streamscribe.bench import silence as bench

    tell(f"{minutes:g} minutes of silence", partial(bench.run, settings, minutes=minutes), json, check)


def _said(manifest: Path | None) -> "list[Utterance]":
    """What a manifest lists, or the recordings of the package."""
    from streamscribe.bench.corpus import read_manifest
    from streamscribe.bench.recordings import utterances

    return utterances() if manifest is None else read_manifest(manifest)


def _http(url: str | None) -> str | None:
    from streamscribe.client.address import http_url

    try:
        return None if url is None else http_url(url)
    except ValueError as error:
        fail(f"--url: {error}", Exit.USAGE)
