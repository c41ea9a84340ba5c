"""Many seeds with a progress bar, or a few to look at: `python -m tests.sim.run SEED...`, `--seeds N`."""

# ruff: noqa: T201 - it is a command

import argparse
import sys
import time
import traceback
from collections import Counter
from multiprocessing import Pool

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from streamscribe.observe.logs import configure
from streamscribe.settings import ObserveSettings
from tests.sim.run import simulate


def outcome(seed: int) -> tuple[int, str | None, Counter[str]]:
    """What became of a seed: the failure's text, or what was met."""
    try:
        run = simulate(seed)
    except BaseException:
        return seed, traceback.format_exc(limit=-3), Counter()
    met = run.met
    for client in run.clients:
        met[
            f"session {'closed' if client.closed else 'gone' if client.gone else client.error and client.error.name}"
        ] += 1
    return seed, None, met


def main() -> None:
    """Exits 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run")
    parser.add_argument("seed", type=int, nargs="*", help="run these, and show what happened")
    parser.add_argument("--seeds", type=int, default=0, help="run so many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    configure(ObserveSettings(log_level="error"))
    for seed in options.seed:
        run = simulate(seed)
        for line in run.trace if options.trace else ():
            print(*line)
        print(f"seed {seed}: holds; {run.virtual_s:.1f} virtual seconds, {dict(run.happened)}, {run.trace_hash[:16]}")
    if options.seeds:
        sys.exit(_many(range(options.first, options.first + options.seeds), options.processes))


def _many(seeds: range, processes: int) -> int:
    failed: list[int] = []
    met: Counter[str] = Counter()
    began = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Pool(processes, configure, (ObserveSettings(log_level="error"),)) as pool, Progress(*columns) as progress:
        task = progress.add_task("seeds", total=len(seeds))
        for seed, failure, seen in pool.imap_unordered(outcome, seeds, chunksize=4):
            met.update(seen)
            if failure is not None:
                failed.append(seed)
                progress.console.print(f"[red]seed {seed}[/red]")
                progress.console.print(failure, markup=False, highlight=False)
            progress.update(task, advance=1, description=f"{len(failed)} failed")
    print(f"{len(seeds)} seeds in {time.monotonic() - began:.0f} s; met {dict(sorted(met.items()))}")
    print(f"failed: {sorted(failed)}" if failed else "all hold")
    return 1 if failed else 0
