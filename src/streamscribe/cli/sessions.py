"""`streamscribe sessions`: who has which session in a cluster, and where it stands, for the engineer on call."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.box import HORIZONTALS
from rich.table import Table

from streamscribe.cli.options import ConfigOption, JsonOption, SetOption, settings_from
from streamscribe.cli.output import Exit, err, fail, out, print_folded, print_json

if TYPE_CHECKING:
    from streamscribe.core.session_view import SessionPage, SessionView
    from streamscribe.ports import SessionStore

app = typer.Typer(
    name="sessions",
    help="The sessions of all gateways and workers that share a Redis (store.redis_url, or REDIS_URL).",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

MAX_LISTED = 10_000
ID_CHARS = 32
"""Of a session on the bus: never folded."""
MINUTE_S, HOUR_S = 60, 3600

T = TypeVar("T")


@app.command("list")
def list_(
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant's.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MAX_LISTED, help="At most so many.")] = 100,
    config: ConfigOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """List sessions: those without a worker first, then by their lag.

    `gateway` and `worker` are called HOST-PROCESS-letters: `cluster up` says the process of each role. `owners`: how
    many workers have had it. `received` and `lag`: seconds of audio, and what of it waits; they and `stage` are as its
    gateway last told, which `told` says.

    Examples:

    ```
    streamscribe sessions list
    streamscribe sessions list --tenant acme --limit 20
    REDIS_URL=redis://redis:6379/0 streamscribe sessions list --json
    ```
    """
    from streamscribe.core.ids import TenantId

    try:
        of_tenant = TenantId(tenant) if tenant is not None else None
    except ValueError as error:
        fail(f"--tenant: {error}", Exit.USAGE)
    page = _ask(config, set_, lambda store: store.sessions(limit, of_tenant))
    views = sorted(page.sessions, key=_urgency)
    if as_json:
        print_json({"total": page.total, "sessions": [_plain(view) for view in views]})
        return
    if not views:
        err.print("no session is open")
        return
    print_folded(table_of(views))
    _tell_more(page, limit)


@app.command()
def show(
    session: Annotated[str, typer.Argument(metavar="ID", help="As `sessions list` or the logs show it, or a client.")],
    config: ConfigOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one session: stage, worker and epoch, lag, positions, and how old each of these is; names as in the list.

    Examples:

    ```
    streamscribe sessions show 3f0c9a4be21d4d1c8a60f6f6f5e2b7aa
    streamscribe sessions show call-4711 --json
    ```
    """
    from streamscribe.core.ids import SessionId

    try:
        wanted = SessionId(session)
    except ValueError as error:
        fail(str(error), Exit.USAGE)
    found, unseen = _ask(config, set_, lambda store: _find(store, wanted))
    if not found and unseen:
        fail(
            f"no session has the id {wanted}, nor do clients call any so of the {MAX_LISTED:,} that were looked at; "
            f"{unseen:,} more are open: type its id on the bus, which the logs of its worker show"
        )
    if not found:
        fail(f"no session {wanted} is open: it has ended, or was never here; see: streamscribe sessions list")
    if len(found) > 1:
        fail(f"several sessions are called {wanted}; type: streamscribe sessions show {' or '.join(found)}")
    (view,) = found.values()
    if as_json:
        print_json(_plain(view))
        return
    table = Table(show_header=False)
    for name, value in _lines(view):
        table.add_row(name, value)
    out.print(table)


async def _find(store: "SessionStore", wanted: Any) -> "tuple[dict[str, SessionView], int]":
    """The session of this id; else those whose clients call them so, and how many sessions were not looked at."""
    view = await store.session(wanted)
    if view is not None:
        return {wanted: view}, 0
    page = await store.sessions(MAX_LISTED)
    named: dict[str, SessionView] = {view.session_id: view for view in page.sessions if view.called == wanted}
    return named, max(0, page.total - MAX_LISTED)


def _ask(config: Any, set_: Any, ask: "Callable[[SessionStore], Awaitable[T]]") -> T:
    """What the store answers. Raises SettingsError and StoreUnavailable where it cannot be used."""
    from streamscribe.bootstrap.sessions import PATIENCE_S, open_shared_sessions
    from streamscribe.core.errors import StoreUnavailable

    async def run() -> T:
        store = open_shared_sessions(settings.store, PATIENCE_S)
        try:
            return await ask(store)
        except StoreUnavailable:
            await store.check()  # which says where Redis is, and what is wrong; a replica may be asked
            raise
        finally:
            await store.close()

    settings = settings_from(config, set_)
    return asyncio.run(run())


def table_of(views: "Iterable[SessionView]") -> Table:
    """Two lines for each: names of processes are long."""
    table = Table(box=HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, show_lines=True)
    table.add_column("session\ntenant", overflow="fold", min_width=ID_CHARS)
    table.add_column("gateway\nworker", overflow="fold")
    for heading in "stage\nowners", "lag\nreceived", "age\ntold":
        table.add_column(heading, no_wrap=True)
    for view in views:
        table.add_row(
            f"{view.session_id}\n{view.tenant_id or ''}",
            f"{view.gateway or 'none'}\n{view.owner or 'none'}",
            f"{view.stage or ''}\n{view.owners}",
            f"{_ms(view.lag_ms)}\n{_ms(view.received_ms)}",
            f"{_s(view.age_s)}\n{_ago(view.told_s)}",
        )
    return table


def _urgency(view: "SessionView") -> tuple[bool, int]:
    return view.owner is not None, -(view.lag_ms or 0)


def _tell_more(page: "SessionPage", limit: int) -> None:
    if page.total > len(page.sessions):
        hint = "" if limit >= MAX_LISTED else f"; --limit {min(page.total, MAX_LISTED)} shows more"
        told = "those that were not spoken of for longest"
        err.print(f"{len(page.sessions):,} of {page.total:,} sessions: {told}{hint}", markup=False)


def _plain(view: "SessionView") -> dict[str, Any]:
    """For machines: ids as text, and the lag."""
    told = {name: str(value) if isinstance(value, str) else value for name, value in asdict(view).items()}
    return told | {"lag_ms": view.lag_ms}


def _lines(view: "SessionView") -> list[tuple[str, str]]:
    worker = "none: it waits for one" if view.owner is None else f"{view.owner}, for {_s(view.lease_s)} more"
    return [
        ("session", view.session_id),
        ("called by its client", view.called or ""),
        ("tenant", view.tenant_id or ""),
        ("age", _s(view.age_s)),
        ("stage", _told(view, view.stage or "")),
        ("gateway", f"{view.gateway}, which told of it {_ago(view.told_s)}" if view.gateway else "none"),
        ("worker", worker),
        ("epoch", "" if view.epoch is None else f"{view.epoch}, of owner number {view.owners}"),
        ("received", _told(view, _ms(view.received_ms))),
        ("processed", _told(view, _ms(view.processed_ms))),
        ("lag", _told(view, _ms(view.lag_ms))),
        ("checkpoint", "none" if view.checkpoint_ms is None else f"at {_ms(view.checkpoint_ms)}, {_ago(view.saved_s)}"),
        ("models", "\n".join(view.models) or "none yet: the first checkpoint names them"),
    ]


def _told(view: "SessionView", value: str) -> str:
    """What its gateway told, and how old that is: the worker and the checkpoint beside it are of other times."""
    return f"{value}, {_ago(view.told_s)}" if value and view.told_s is not None else value


def _ms(value_ms: int | None) -> str:
    return "" if value_ms is None else _s(value_ms / 1000)


def _ago(value_s: float | None) -> str:
    return "never" if value_s is None else f"{_s(value_s)} ago"


def _s(value_s: float | None) -> str:
    """A time as people read it."""
    if value_s is None:
        return ""
    if value_s < 2 * MINUTE_S:
        return f"{value_s:.1f} s"
    return f"{value_s / MINUTE_S:.0f} min" if value_s < 2 * HOUR_S else f"{value_s / HOUR_S:.1f} h"
