"""How an extra of the package is installed, in the words of every error and finding that asks for one."""


def install_extra(extra: str) -> str:
    """What to type for an extra; the package is installed from its checkout, as the README does it."""
    return f"in the checkout, type: pip install -e '.[{extra}]'"
