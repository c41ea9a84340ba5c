"""`streamscribe bench`: measurements that anyone can repeat, held against the project's own bars."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from streamscribe.bench.kinds import Engine, Size
from streamscribe.cli.options import JsonOption, ProfileOption, SetOption, require_models, settings_from
from streamscribe.cli.output import Exit, err, fail, out, print_json
from streamscribe.core.options import Latency, Mode

if TYPE_CHECKING:
    from streamscribe.bench.report import Report

app = typer.Typer(
    help="Measure, as a table or `--json`; `--check` exits 1 where a bar of the project does not hold.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

KEY = "STREAMSCRIBE_KEY"
CheckOption = Annotated[bool, typer.Option("--check", help="Exit with 1 where a bar does not hold.")]
EngineOption = Annotated[Engine, typer.Option(help="What runs the streaming model; `torch` needs the extra `funasr`.")]
SizeOption = Annotated[
    Size, typer.Option("--model", help="`real`: 220 M random weights, in 8 bits for `onnx`; needs the extra `funasr`.")
]
ThreadsOption = Annotated[int, typer.Option(min=0, max=256, help="Of a step; 0: all cores, or one for `tiny`.")]
FolderOption = Annotated[
    Path | None, typer.Option(help="Where the model of real size is kept, or written at first; else it is not kept.")
]


@app.command()
def accuracy(
    manifest: Annotated[
        Path | None, typer.Option(help="Lines of JSON: audio (path), text, language; paths relative to the file.")
    ] = None,
    prompts: Annotated[
        int, typer.Option(min=1, max=1000, help="Without a manifest: so many telephone prompts of 6 words or more.")
    ] = 60,
    url: Annotated[
        str | None, typer.Option(help="A running server; else one is started. Without keys, or with STREAMSCRIBE_KEY.")
    ] = None,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Word and character error rates through the running service, beside the bare engine's.

    Examples:

    ```
    streamscribe bench accuracy --prompts 60 --check
    streamscribe bench accuracy --manifest recordings.jsonl --json
    ```
    """
    settings = settings_from(None, None)
    require_models(settings, *(() if manifest else ("telephone-prompts",)))
    from streamscribe.bench import accuracy as bench

    with err.status("recognising"):
        report = bench.run(settings, manifest=manifest, prompts=prompts, url=_http(url), key=os.environ.get(KEY))
    _show(report, as_json=json, check=check)


@app.command()
def gateway(
    sessions: Annotated[int, typer.Option(min=1, max=5000, help="Live sessions at once.")] = 200,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="How long to measure each server.")] = 10,
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

    with err.status(f"{sessions} sessions for {seconds:g} s, twice"):
        report = bench.run(sessions=sessions, seconds=seconds)
    _show(report, as_json=json, check=check)


@app.command()
def streams(
    sessions: Annotated[int, typer.Option(min=1, max=5000, help="Sessions that speak at once, in real time.")] = 150,
    seconds: Annotated[float, typer.Option(min=5, max=3600, help="How long to measure, once all speak.")] = 30,
    mode: Annotated[Mode, typer.Option(help="Which passes run.")] = Mode.TWO_PASS,
    latency: Annotated[Latency, typer.Option(help="How long the chunks of the first pass are.")] = Latency.BALANCED,
    set_: SetOption = None,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Real-time streams through the whole server on the small models: lag of partials and finals, and the text.

    Examples:

    ```
    streamscribe bench streams --check
    streamscribe bench streams --sessions 300 --mode online --json
    ```
    """
    from streamscribe.bench import streams as bench

    with err.status(f"{sessions} sessions for {seconds:g} s"):
        report = bench.run(sessions=sessions, seconds=seconds, mode=mode, latency=latency, sets=set_ or ())
    _show(report, as_json=json, check=check)


@app.command()
def step(
    engine: EngineOption = Engine.ONNX,
    model: SizeOption = Size.TINY,
    batches: Annotated[str, typer.Option(help="Sessions in a step; each must divide the largest.")] = "1,2,4,8,16",
    threads: ThreadsOption = 0,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="Turns of each; medians are told.")] = 7,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Time FunASR's own calls too; needs `--model real` and the extra `funasr`.")
    ] = False,
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
    counts = _batches(batches)
    from streamscribe.bench import step as bench

    with err.status("stepping"):
        report = bench.run(
            size=model,
            engine=engine,
            batches=counts,
            threads=threads,
            rounds=rounds,
            oracle=oracle,
            folder=folder,
        )
    _show(report, as_json=json, check=check)


@app.command()
def stack(
    engine: EngineOption = Engine.ONNX,
    model: SizeOption = Size.TINY,
    sessions: Annotated[int, typer.Option(min=1, max=256, help="Sessions at once.")] = 16,
    seconds: Annotated[float, typer.Option(min=1, max=25, help="Speech that each session hears.")] = 12,
    threads: ThreadsOption = 0,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Turns of each; medians are told.")] = 3,
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

    with err.status(f"{sessions} sessions of {seconds:g} s"):
        report = bench.run(
            size=model,
            engine=engine,
            sessions=sessions,
            seconds=seconds,
            threads=threads,
            rounds=rounds,
            folder=folder,
        )
    _show(report, as_json=json, check=check)


@app.command()
def endurance(
    minutes: Annotated[int, typer.Option(min=2, max=230, help="Minutes of audio, heard as fast as possible.")] = 60,
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

    with err.status(f"{minutes} minutes"):
        report = bench.run(settings, minutes=minutes)
    _show(report, as_json=json, check=check)


@app.command()
def text(json: JsonOption = False, check: CheckOption = False) -> None:
    """Whether numbers are written as the tables say, and what it costs to finish a text.

    Examples:

    ```
    streamscribe bench text --check
    ```
    """
    from streamscribe.bench import text_rules as bench

    with err.status("finishing texts"):
        report = bench.run()
    _show(report, as_json=json, check=check)


@app.command()
def passes(
    manifest: Annotated[
        Path | None, typer.Option(help="Lines of JSON: audio (path), text; else the recordings of the package.")
    ] = None,
    profile: Annotated[str, typer.Option(help="Which models: tiny or zh.")] = "tiny",
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """What both passes hear of recordings cut tight to their speech, beside the second pass's engine alone.

    Examples:

    ```
    streamscribe bench passes --check
    streamscribe bench passes --manifest recordings.jsonl --profile zh --json
    ```
    """
    settings = settings_from(None, None, model__profile=profile)
    require_models(settings)
    from streamscribe.bench import passes as bench
    from streamscribe.bench.corpus import read_manifest
    from streamscribe.bench.recordings import utterances

    with err.status("recognising"):
        report = bench.run(settings, read_manifest(manifest) if manifest else utterances())
    _show(report, as_json=json, check=check)


@app.command()
def hotwords(
    recordings: Annotated[
        Path | None,
        typer.Option(help="Clips without the names: lines of JSON, audio (path) and text; else those of the package."),
    ] = None,
    profile: Annotated[str, typer.Option(help="Which models: tiny or zh.")] = "tiny",
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
    from streamscribe.bench.corpus import read_manifest
    from streamscribe.bench.recordings import utterances

    others = read_manifest(recordings) if recordings else utterances()
    with err.status("recognising"):
        report = bench.run(settings, others)
    _show(report, as_json=json, check=check)


@app.command()
def silence(
    minutes: Annotated[float, typer.Option(min=1, max=230, help="Minutes of silence before the speech.")] = 10,
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

    with err.status(f"{minutes:g} minutes of silence"):
        report = bench.run(settings, minutes=minutes)
    _show(report, as_json=json, check=check)


def _batches(text: str) -> list[int]:
    numbers = text.split(",")
    counts = [int(number) for number in numbers if number.isdecimal() and 0 < int(number) <= 1024]
    if len(counts) < len(numbers) or any(max(counts) % count for count in counts):
        fail(f"--batches {text}: write numbers from 1 to 1024, as in 1,4,16, each dividing the largest", Exit.USAGE)
    return counts


def _http(url: str | None) -> str | None:
    from streamscribe.client.address import http_url

    try:
        return None if url is None else http_url(url)
    except ValueError as error:
        fail(f"--url: {error}", Exit.USAGE)


def _show(report: "Report", *, as_json: bool, check: bool) -> None:
    if as_json:
        print_json(report.as_dict())
    else:
        bars = {bar.figure: bar for bar in report.bars}
        table = Table(title=f"{report.bench} · {report.machine}", title_justify="left")
        table.add_column("figure")
        table.add_column("value", justify="right")
        table.add_column("bar", justify="right")
        for name, value in report.figures.items():
            bar = bars.get(name)
            verdict = f"{bar.op} {bar.bar:g} {'✓' if bar.holds else '✗'}" if bar else ""
            table.add_row(
                name,
                f"{value:,.0f}" if value >= 1000 else f"{value:.4g}",
                verdict,
                style="red" if bar and not bar.holds else None,
            )
        out.print(table)
    if check and not report.holds:
        raise typer.Exit(Exit.FAILED)
