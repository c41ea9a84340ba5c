"""`streamscribe topics`: the topics of the log between gateways and workers."""

import typer
from rich.table import Table

from streamscribe.cli.options import ConfigOption, JsonOption, SetOption, settings_from
from streamscribe.cli.output import err, out, print_json

app = typer.Typer(
    name="topics",
    help="Kafka's topics between gateways, workers and finalizers.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.callback()
def _root() -> None:
    pass


@app.command()
def ensure(config: ConfigOption = None, set_: SetOption = None, as_json: JsonOption = False) -> None:
    """Make the topics that are missing, and check that all have the partitions and replicas of the settings.

    It may be repeated. A topic that is there is never changed: with another count of partitions a session's records
    would not stay in order.

    Examples:

    ```
    streamscribe topics ensure --set kafka.brokers=kafka-1:9092,kafka-2:9092
    KAFKA_BROKERS=localhost:9092 streamscribe topics ensure --set kafka.replication=1 --json
    ```
    """
    from streamscribe.bootstrap.kafka import ensure_topics

    settings = settings_from(config, set_)
    with err.status("asking the cluster"):
        states = ensure_topics(settings)
    if as_json:
        print_json(states)
        return
    table = Table("topic", "partitions", "replicas", "state")
    for state in states:
        made = "made now" if state.created else "was there"
        table.add_row(state.topic, str(state.partitions), str(state.replication), made)
    out.print(table)
