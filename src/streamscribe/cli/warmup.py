"""`streamscribe warmup`: loads and warms the models once, and says how long each took."""

import typer

from streamscribe.cli.options import ConfigOption, JsonOption, ProfileOption, SetOption, require_models, settings_from
from streamscribe.cli.output import err, out, print_json


def mount(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(warmup)


def warmup(
    profile: ProfileOption = None, config: ConfigOption = None, set_: SetOption = None, json: JsonOption = False
) -> None:
    """Load and warm the models as `serve` would, and show the seconds: a check before a deployment.

    Examples:

    ```
    streamscribe warmup
    streamscribe warmup --json --set model.threads=4
    ```
    """
    settings = settings_from(config, set_, model__profile=profile)
    require_models(settings)
    from streamscribe.bootstrap.models import load_models

    with err.status("loading and warming the models"):
        models = load_models(settings.model)
        models.start()
        models.wait_ready()
        seconds = models.warmup_s
        models.close()
    if json:
        print_json({"profile": settings.model.profile, "warmup_s": seconds})
    else:
        for name, value in seconds.items():
            out.print(f"{name}: warm after {value:.2f} s")
