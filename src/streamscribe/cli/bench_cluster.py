"""The measurements of what lies between processes; commands of `streamscribe bench`."""

from functools import partial
from typing import Annotated

import typer

from streamscribe.bench.kinds import KAFKA_PARTS, LOCAL_PARTS
from streamscribe.cli.measured import tell
from streamscribe.cli.options import (
    CheckOption,
    ClusterPartsOption,
    HarmSecondsOption,
    JsonOption,
    RolledOption,
    SecondsOption,
    SessionsOption,
)
from streamscribe.cli.output import Exit, fail

app = typer.Typer()


@app.command()
def bus(
    sessions: SessionsOption = 100,
    seconds: SecondsOption = 10,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Kafka's log too, over a small broker of the measurement's own.")
    ] = False,
    brokers: Annotated[
        str, typer.Option(help="Kafka's log too, over these, as host:9092; they get topics that stay.")
    ] = "",
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Latency that a bus between processes adds to the one in memory, and how many records a second it carries.

    Examples:

    ```
    streamscribe bench bus --check
    streamscribe bench bus --sessions 200 --seconds 30 --json
    streamscribe bench bus --kafka --check
    streamscribe bench bus --brokers localhost:9092
    ```
    """
    from streamscribe.bench import bus as bench

    tell(
        f"{sessions} streams over each bus",
        partial(bench.run, streams=sessions, seconds=seconds, kafka=kafka, brokers=brokers),
        json,
        check,
    )


@app.command()
def cluster(
    part: ClusterPartsOption = None,
    sessions: SessionsOption = 40,
    rolled: RolledOption = 100,
    seconds: HarmSecondsOption = 60,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="A cluster over Kafka and Redis, small ones of its own, instead of `serve`.")
    ] = False,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Whether processes may be killed, replaced, frozen, cut off and overloaded: what is lost, and for how long.

    Parts:

    - `kill`: a random worker is killed every five seconds
    - `kill_tiny`: the same, with the small models and speech
    - `roll`: each process is replaced, one after the other
    - `freeze`: a worker is stopped for three times what counts as its death, then goes on, for twice (with Kafka four
      times) the seconds: 20 times in those of the default
    - `overload`: more and more sessions until workers can serve no more, then three times as many
    - `scale`: one, two and four workers
    - `proxy`: a hostile network before the server
    - `streams`: how many a gateway with one worker process keeps up with, beside one process for all
    - `redis`: it is frozen, then killed
    - `broker`: it is frozen

    With `--kafka`: kill, roll, freeze, redis and broker. Without: all but redis and broker.

    Examples:

    ```
    streamscribe bench cluster --check
    streamscribe bench cluster --part kill --sessions 200 --seconds 300 --check
    streamscribe bench cluster --kafka --part roll --check
    ```
    """
    possible = KAFKA_PARTS if kafka else LOCAL_PARTS
    parts = part or list(possible)
    if unknown := [one for one in parts if one not in possible]:
        fail(
            f"--part {unknown[0]}: {'with' if kafka else 'without'} --kafka there are {', '.join(possible)}", Exit.USAGE
        )
    from streamscribe.bench import cluster as bench

    run = partial(bench.run, parts=parts, sessions=sessions, rolled=rolled, seconds=seconds, kafka=kafka)
    tell(f"{', '.join(parts)}: {seconds:g} s each", run, json, check)


@app.command()
def neighbours(seconds: SecondsOption = 60, json: JsonOption = False, check: CheckOption = False) -> None:
    """What a tenant that asks for ten times its share costs another tenant of the same server.

    Examples:

    ```
    streamscribe bench neighbours --check
    streamscribe bench neighbours --seconds 180 --json
    ```
    """
    from streamscribe.bench import neighbours as bench

    tell("two tenants, one of which floods", partial(bench.run, seconds=seconds), json, check)
