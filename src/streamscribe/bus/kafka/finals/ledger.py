"""What a finalizer has of one partition: requests that are not answered yet, and how far it may be committed."""

from dataclasses import dataclass, field

from streamscribe.core.integrity import ensure


@dataclass(slots=True)
class Ledger:
    """The requests of one partition, by their offsets.

    Whoever takes the partition over begins at `committable`, and finds each request that was not answered; some that
    were are answered twice.
    """

    number: int
    next: int | None = None
    """The offset behind the request that came last; None before the first."""
    open: dict[int, float] = field(default_factory=dict)
    """When each unanswered request was asked, in seconds since the epoch."""

    def come(self, offset: int, asked_at_s: float) -> bool:
        """A request has come; False for one that is being answered already, which the log has given again."""
        self.next = offset + 1
        if offset in self.open:
            return False
        self.open[offset] = asked_at_s
        return True

    def over(self, offset: int) -> None:
        """It is answered, and that is in the log; or nobody waits for an answer."""
        del self.open[offset]

    @property
    def committable(self) -> int | None:
        """Where another goes on; None before the first request."""
        return min(self.open, default=self.next)

    @property
    def oldest_s(self) -> float | None:
        """When the oldest unanswered request was asked; None where none waits."""
        return min(self.open.values(), default=None)

    def check_integrity(self) -> None:
        """Nothing is open that has not come."""
        ensure(not self.open or self.next is not None, "open <= come")
