"""The equations of ledgers: each core object states its own in `check_integrity()`."""


def ensure(holds: bool, equation: str) -> None:
    """Raises AssertionError that quotes the equation which does not hold: a defect of ours, never a peer's doing."""
    if not holds:
        raise AssertionError(equation)
