"""Which session is to blame where workers end: what every bus counts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ends:
    """So many of a session's workers ended by themselves, one after the other, since it last got on.

    The last `same` of them ended at one place, `at`: a record. None: it is not known,
    and may have been the same.
    """

    count: int = 0
    same: int = 0
    at: int | None = None

    def ended(self, at: int | None) -> "Ends":
        """One more has ended, at that place."""
        return Ends(self.count + 1, self.same + 1 if self.count and at == self.at else 1, at)

    @property
    def suspect(self) -> bool:
        """Where each end's place is seen: two ended at one, or three on the way from one checkpoint."""
        return self.same > 1 or self.count > 2

    @property
    def guilty(self) -> bool:
        """Two ended at a place that is known: of one that was tried alone nobody needs more."""
        return self.same > 1 and self.at is not None


NO_ENDS = Ends()
