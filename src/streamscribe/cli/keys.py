"""`streamscribe keys`: make, list and revoke API keys."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from streamscribe.cli.options import JsonOption
from streamscribe.cli.output import Exit, err, fail, out, print_json

app = typer.Typer(
    name="keys",
    help="API keys of tenants; only their MACs are kept.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

FileOption = Annotated[Path, typer.Option("--file", help="The tenants file (gateway.tenants_file).")]
DEFAULT_FILE = Path("tenants.yaml")


@app.command()
def new(
    tenant: Annotated[str, typer.Argument(help="The tenant's id.")],
    file: FileOption = DEFAULT_FILE,
    max_sessions: Annotated[
        int | None, typer.Option("--max-sessions", min=1, max=100_000, help="Sessions that the tenant may have.")
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="The tenant may drain gateways, by POST /admin/drain.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a key for TENANT and show it, once.

    Examples:

    ```
    streamscribe keys new acme
    streamscribe keys new acme --file tenants.yaml --max-sessions 50
    streamscribe keys new ops --operator
    ```
    """
    from streamscribe.control.keys import new_key
    from streamscribe.store.keys import KeyFileError

    try:
        key = new_key(file, tenant, max_sessions=max_sessions, operator=operator)
    except KeyFileError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or file}: {error.strerror or error}")
    except ValueError as error:  # the tenant's id is none
        fail(f"{tenant!r}: {error}", Exit.USAGE)
    if as_json:
        print_json({"tenant": tenant, "key": key, "file": str(file)})
        return
    out.print(key, markup=False)
    err.print(
        f"Keep it: it is not stored and is never shown again. Start the server with --tenants {file}; one that runs "
        "with it knows the key within seconds.",
        markup=False,
    )


@app.command("list")
def list_(file: FileOption = DEFAULT_FILE, as_json: JsonOption = False) -> None:
    """List the keys' ids, tenants and quotas, and whose tenant is an operator.

    Examples:

    ```
    streamscribe keys list
    ```
    """
    from streamscribe.control.keys import list_keys
    from streamscribe.store.keys import KeyFileError

    try:
        keys = list_keys(file)
    except KeyFileError as error:
        fail(str(error))
    if as_json:
        print_json(keys)
        return
    table = Table("key id", "tenant", "created", "max sessions", "operator")
    for key in keys:
        table.add_row(
            key.key_id, key.tenant, key.created, str(key.max_sessions or "default"), "yes" if key.operator else ""
        )
    out.print(table)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="As `keys list` shows it.")],
    file: FileOption = DEFAULT_FILE,
    as_json: JsonOption = False,
) -> None:
    """Revoke a key; a running server refuses it within seconds.

    Examples:

    ```
    streamscribe keys revoke 63749f9df81f
    ```
    """
    from streamscribe.control.keys import revoke_key
    from streamscribe.store.keys import KeyFileError

    try:
        tenant = revoke_key(file, key_id)
    except KeyFileError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename or file}: {error.strerror or error}")
    if as_json:
        print_json({"key_id": key_id, "tenant": tenant})
        return
    out.print(f"revoked {key_id} of {tenant}", markup=False)
