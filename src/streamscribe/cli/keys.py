"""`streamscribe keys`: make, list and revoke API keys."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from streamscribe.cli.options import JsonOption
from streamscribe.cli.output import err, fail, out, print_json
from streamscribe.control.keys import list_keys, new_key, revoke_key
from streamscribe.store.keys import KeyFileError

app = typer.Typer(name="keys", help="API keys of tenants; only their MACs are kept.", no_args_is_help=True)

FileOption = Annotated[Path, typer.Option("--file", help="The tenants file (gateway.tenants_file).")]
DEFAULT_FILE = Path("tenants.yaml")


@app.command()
def new(
    tenant: Annotated[str, typer.Argument(help="The tenant's id.")],
    file: FileOption = DEFAULT_FILE,
    max_sessions: Annotated[
        int | None, typer.Option("--max-sessions", min=1, max=100_000, help="Sessions that the tenant may have.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key for TENANT and show it, once."""
    try:
        key = new_key(file, tenant, max_sessions=max_sessions)
    except (KeyFileError, ValueError, OSError) as error:
        fail(str(error))
    if as_json:
        print_json({"tenant": tenant, "key": key, "file": str(file)})
        return
    out.print(key, markup=False)
    err.print(f"Keep it: it is not stored and is never shown again. The server uses {file}.", markup=False)


@app.command("list")
def list_(file: FileOption = DEFAULT_FILE, as_json: JsonOption = False) -> None:
    """List the keys' ids, tenants and quotas."""
    try:
        keys = list_keys(file)
    except KeyFileError as error:
        fail(str(error))
    if as_json:
        print_json(keys)
        return
    table = Table("key id", "tenant", "created", "max sessions")
    for key in keys:
        table.add_row(key.key_id, key.tenant, key.created, str(key.max_sessions or "default"))
    out.print(table)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="As `keys list` shows it.")], file: FileOption = DEFAULT_FILE
) -> None:
    """Revoke a key; a running server refuses it within seconds."""
    try:
        tenant = revoke_key(file, key_id)
    except (KeyFileError, OSError) as error:
        fail(str(error))
    out.print(f"revoked {key_id} of {tenant}", markup=False)
