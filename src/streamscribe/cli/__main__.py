"""`python -m streamscribe.cli` is the `streamscribe` command."""

from streamscribe.cli.main import main

if __name__ == "__main__":
    main()
