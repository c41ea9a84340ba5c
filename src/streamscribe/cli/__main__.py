"""The `streamscribe` command, also as `python -m streamscribe.cli`: what comes before anything is imported."""

import signal
import sys

TAKE_HANGUPS = frozenset({"serve", "gateway", "worker", "finalizer", "cluster"})
"""The commands that go on at SIGHUP; all others end."""


def main() -> None:
    """Entry point. A SIGHUP that comes while a server still imports waits until it listens for it; a Ctrl-C ends it."""
    if TAKE_HANGUPS.intersection(sys.argv[1:2]):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        from streamscribe.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
