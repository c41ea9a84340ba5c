"""`streamscribe warmup`: loads and warms the models once, and says how long each took."""

from dataclasses import asdict
from typing import Annotated

import typer

from streamscribe.cli.options import (
    ConfigOption,
    JsonOption,
    ModelOption,
    ProfileOption,
    SetOption,
    require_models,
    settings_from,
)
from streamscribe.cli.output import err, out, print_json


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(warmup)


def warmup(
    profile: ProfileOption = None,
    model: ModelOption = None,
    models: Annotated[
        str | None, typer.Option(help="Ids of the profile's models, as in whisper-base,fsmn-vad; else all.")
    ] = None,
    devices: Annotated[
        str | None, typer.Option(help="One after the other, as in cpu,cuda; else that of the settings.")
    ] = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Load and warm models as `serve` would, and show the seconds: a check before a deployment.

    Each runs what clients will ask of it: short and long segments, alone and in full steps. Nothing is cached or
    counted. A device that is not there ends it with exit code 1, one that no model can use with 2.

    Examples:

    ```
    streamscribe warmup
    streamscribe warmup --json --set model.threads=4
    streamscribe warmup --profile zh --models paraformer-zh,ct-punc
    streamscribe warmup --profile zh --model nano --devices cpu,cuda
    ```
    """
    only = models.split(",") if models else []
    told = {}
    for device in devices.split(",") if devices else [None]:
        settings = settings_from(
            config, set_, model__profile=profile, model__second_pass=model, model__device=device
        ).model
        if not only:
            require_models(settings_from(config, set_, model__profile=profile, model__second_pass=model))
        from streamscribe.bootstrap.warming import warm

        with err.status("loading and warming the models"):
            told[settings.device] = warm(settings, only)
    if json:
        print_json({"profile": settings.profile, "devices": {device: asdict(one) for device, one in told.items()}})
        return
    for device, one in told.items():
        out.print(f"{device}: loaded after {one.load_s:.2f} s")
        for name, seconds in one.warmup_s.items():
            out.print(f"  {name}: warm after {seconds:.2f} s")
