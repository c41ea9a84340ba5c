"""The measurements of what lies between processes; commands of `streamscribe bench`."""

from functools import partial
from typing import Annotated

import typer

from streamscribe.bench.kinds import ClusterPart
from streamscribe.cli.measured import tell
from streamscribe.cli.options import (
    CheckOption,
    ClusterPartsOption,
    JsonOption,
    RolledOption,
    SecondsOption,
    SessionsOption,
)

app = typer.Typer()


@app.command()
def bus(
    sessions: SessionsOption = 100,
    seconds: SecondsOption = 10,
    kafka: Annotated[str, typer.Option(help="Brokers, to measure the log too; it gets topics that stay.")] = "",
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Latency that a bus between processes adds to the one in memory, and how many records a second it carries.

    Examples:

    ```
    streamscribe bench bus --check
    streamscribe bench bus --sessions 200 --seconds 30 --json
    streamscribe bench bus --kafka localhost:9092
    ```
    """
    from streamscribe.bench import bus as bench

    tell(
        f"{sessions} streams over each bus",
        partial(bench.run, streams=sessions, seconds=seconds, brokers=kafka),
        json,
        check,
    )


@app.command()
def cluster(
    part: ClusterPartsOption = None,
    sessions: SessionsOption = 40,
    rolled: RolledOption = 100,
    seconds: SecondsOption = 60,
    json: JsonOption = False,
    check: CheckOption = False,
) -> None:
    """Whether worker processes may be killed, replaced, frozen and overloaded: what is lost, and for how long.

    Examples:

    ```
    streamscribe bench cluster --check
    streamscribe bench cluster --part kill --sessions 200 --seconds 300 --check
    ```
    """
    from streamscribe.bench import cluster as bench

    parts = part or list(ClusterPart)
    run = partial(bench.run, parts=parts, sessions=sessions, rolled=rolled, seconds=seconds)
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
