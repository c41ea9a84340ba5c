"""How an extra of the package is installed, in the words of every error and finding that asks for one."""


def install_extra(*extras: str) -> str:
    """What to type for all of them at once; the package is installed from its checkout, as the README does it."""
    return f"in the checkout, type: pip install -e '.[{','.join(extras)}]'"
