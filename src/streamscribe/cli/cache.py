"""`streamscribe cache`: what is kept so that nothing is computed twice: shown, purged, verified."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from streamscribe.cli.options import ConfigOption, JsonOption, SetOption, settings_from
from streamscribe.cli.output import Exit, err, fail, out, print_json
from streamscribe.core.counted import counted

if TYPE_CHECKING:
    from streamscribe.cache.levels import Levels
    from streamscribe.settings import CacheSettings
    from streamscribe.wire.rest_cache import CacheState, Level

app = typer.Typer(
    name="cache",
    help="What servers keep so that nothing is computed twice: on disk and in Redis, or in a running server.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

UrlOption = Annotated[str | None, typer.Option("--url", help="Ask a running server instead, as http://localhost:8000.")]
ApiKeyOption = Annotated[str | None, typer.Option("--key", envvar="STREAMSCRIBE_KEY", help="API key, with --url.")]

PATIENCE_S = 150.0
"""For an answer: a purge of Redis walks all its keys, and a gateway asks all of a cluster twice, for a minute each."""

NO_SERVER = "what answers at {} is no StreamScribe server"
TELLS_NO_FIGURES = "a server of several tenants tells no figures, for they are of all; see its /metrics"
TOO_FEW = "wait: too few look-ups until now to say whether a level is worth its room"
NOTHING_OUTLIVES = (
    "nothing outlives a server: cache.feature_cache_dir is not set, nor cache.transcripts with a folder or a Redis; "
    "for what a running one has in memory add --url http://localhost:8000"
)


@app.command()
def show(
    url: UrlOption = None,
    key: ApiKeyOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show each level: entries and bytes by tier, for how long, and of a running server its hits.

    Without `--url`, folders and Redis are read directly. A server of several tenants tells no figures: they are of all.

    Examples:

    ```
    streamscribe cache show
    streamscribe cache show --config streamscribe.yaml --json
    streamscribe cache show --url http://localhost:8000
    ```
    """
    from streamscribe.wire.rest_cache import CacheState

    if url is None:
        levels = _open(config, set_)
        state = CacheState(tuple(level.told() for level in levels.facts()))
        levels.close()
    else:
        state = _ask("GET", url, key, CacheState)
    if as_json:
        print_json(state)
        return
    if url is None and not state.levels:
        err.print(NOTHING_OUTLIVES, markup=False)
    if state.zero_retention:
        err.print("zero retention: nothing of this tenant is kept", markup=False)
    if url is not None and not _tells_figures(state):
        err.print(TELLS_NO_FIGURES, markup=False)
    elif state.levels:
        _print_levels(state.levels, with_hits=url is not None)


@app.command()
def purge(
    tenant: Annotated[str | None, typer.Option("--tenant", help="Forget all of this tenant.")] = None,
    entry: Annotated[str | None, typer.Option("--entry", help="Forget this one entry: its file's name.")] = None,
    url: UrlOption = None,
    key: ApiKeyOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget all of one tenant, or one entry; with `--url` all that a running server has of the key's tenant.

    Without `--url`, on disk and in Redis only: a running server may have in memory what it had from there.

    Examples:

    ```
    streamscribe cache purge --tenant acme
    streamscribe cache purge --url http://localhost:8000 --key ss_...
    streamscribe cache purge --entry 5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9
    ```
    """
    from streamscribe.core.cachekey import CacheKey
    from streamscribe.core.ids import TenantId
    from streamscribe.wire.rest_cache import Purged

    if [tenant, entry, url].count(None) != 2:
        fail("say what to forget: one of --tenant, --entry and --url", Exit.USAGE)
    if url is not None:
        done = _ask("DELETE", url, key, Purged)
        _tell_purged(done.purged, as_json, workers=done.workers or None)
        return
    levels = _open(config, set_)
    if entry is not None:
        if not levels.remove(CacheKey(entry)):
            fail("there is no such entry")
        _tell_purged({"entry": 1}, as_json)
    elif tenant is not None:
        try:
            owner = TenantId(tenant)
        except ValueError as error:
            fail(f"--tenant: {error}", Exit.USAGE)
        _tell_purged(levels.purge(owner), as_json)
    levels.close()


@app.command()
def clear(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget everything of everyone, on disk and in Redis.

    Examples:

    ```
    streamscribe cache clear
    streamscribe cache clear --yes --json
    ```
    """
    levels = _open(config, set_)
    if not yes and not typer.confirm("Forget everything that is kept of all tenants?", err=True):
        fail("nothing was forgotten")
    _tell_purged(levels.purge(), as_json)
    levels.close()


@app.command()
def verify(config: ConfigOption = None, set_: SetOption = None, as_json: JsonOption = False) -> None:
    """Read everything on disk and in Redis again; what is damaged or forged is removed, and the exit code is 1.

    Examples:

    ```
    streamscribe cache verify
    streamscribe cache verify --set cache.feature_cache_dir=/var/cache/asr
    ```
    """
    levels = _open(config, set_)
    verified = levels.verify()
    levels.close()
    if as_json:
        print_json(verified)
    elif not verified:
        err.print(NOTHING_OUTLIVES, markup=False)
    for level, done in verified.items():
        if not as_json:
            out.print(f"{level}: {done.checked} checked, {done.damaged} damaged and removed", markup=False)
    if any(done.damaged for done in verified.values()):
        raise typer.Exit(Exit.FAILED)


@app.command()
def roi(
    url: Annotated[str, typer.Option("--url", help="The running server.")] = "http://localhost:8000",
    key: ApiKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """What each level of a running server saves, beside what it takes, and what to switch off.

    Seconds are estimates, by what the server's models have taken until now. A server of several tenants tells no
    figures.

    Examples:

    ```
    streamscribe cache roi
    streamscribe cache roi --url http://localhost:8000 --json
    ```
    """
    from streamscribe.observe.cache_roi import Advice, read_counts, returns
    from streamscribe.wire.rest_cache import CacheState

    state = _ask("GET", url, key, CacheState)
    lines = returns(read_counts(state, _fetch("GET", url, key, "/metrics").decode()))
    if as_json:
        print_json([asdict(line) for line in lines])
        return
    if not _tells_figures(state):
        err.print(TELLS_NO_FIGURES, markup=False)
        return
    table = Table("level", "reuse", "saved s", "memory", "disk, Redis", "saved s per GiB", "advice")
    for line in lines:
        per_gib = "" if line.saved_s_per_gib is None else f"{line.saved_s_per_gib:,.0f}"
        room = (f"{line.memory_bytes:,}", f"{line.disk_bytes:,}")
        table.add_row(line.level, f"{line.reuse:.1%}", f"{line.saved_s:,.1f}", *room, per_gib, line.advice)
    out.print(table)
    if any(line.advice is Advice.WAIT for line in lines):
        err.print(TOO_FEW, markup=False)


def _open(config: Any, set_: Any) -> "Levels":
    settings: CacheSettings = settings_from(config, set_).cache
    from streamscribe.bootstrap.caches import open_kept

    return open_kept(settings)


def _ask(method: str, url: str, key: str | None, kind: Any) -> Any:
    """What a server answers on `/v1/cache`; ends the command where it refuses or is not there."""
    import msgspec

    try:
        return msgspec.json.decode(_fetch(method, url, key, "/v1/cache"), type=kind)
    except msgspec.DecodeError:
        fail(NO_SERVER.format(url))


def _fetch(method: str, url: str, key: str | None, path: str) -> bytes:
    """What a server answers; ends the command where it refuses or is not there."""
    import httpx

    from streamscribe.client.address import http_url

    try:
        address = f"{http_url(url)}{path}"
    except ValueError as error:
        fail(f"--url: {error}", Exit.USAGE)
    if key is not None and not (key.isascii() and key.isprintable()):
        fail("--key: this is no API key: it has characters that no key has", Exit.USAGE)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        answer = httpx.request(method, address, headers=headers, timeout=PATIENCE_S)
        refusal = None if answer.is_success else answer.json()["error"]["message"]
    except httpx.HTTPError:
        fail(f"no server answers at {url}; start one with: streamscribe serve")
    except (ValueError, KeyError, TypeError):
        fail(NO_SERVER.format(url))
    if refusal is not None:
        hint = "; give a key with --key or STREAMSCRIBE_KEY" if answer.status_code == 401 else ""
        fail(f"the server refused: {refusal}{hint}")
    return answer.content


def _tells_figures(state: "CacheState") -> bool:
    return any(tier.entries is not None for level in state.levels for tier in level.tiers)


def _print_levels(levels: "Iterable[Level]", *, with_hits: bool) -> None:
    """Only a server counts hits."""
    table = Table("level", "tier", "entries", "bytes", "kept for", *(["hits"] if with_hits else []))
    for level in levels:
        kept = "while there is room" if level.ttl_s is None else f"{level.ttl_s / 86_400:g} days"
        for number, tier in enumerate(level.tiers):
            figures = [_figure(tier.entries), _figure(tier.bytes)] if tier.available is not False else ["?", "?"]
            first = not number
            hits = [_hits(level, first)] if with_hits else []
            table.add_row(level.level if first else "", tier.tier, *figures, kept if first else "", *hits)
    out.print(table)


def _figure(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _hits(level: "Level", first: bool) -> str:
    if not first or level.hits is None or level.misses is None:
        return ""
    asked = level.hits + level.misses
    share = f" ({level.hits / asked:.0%})" if asked else ""
    return f"{level.hits:,} of {asked:,}{share}" + (", rests" if level.resting else "")


def _tell_purged(purged: Any, as_json: bool, workers: int | None = None) -> None:
    if as_json:
        print_json({"purged": purged} | ({} if workers is None else {"workers": workers}))
        return
    if workers is not None:
        err.print(f"in {counted(workers, 'worker')}", markup=False)
    for level, count in purged.items():
        out.print(f"{level}: {count:,} forgotten", markup=False)
    if not purged:
        err.print(NOTHING_OUTLIVES, markup=False)
