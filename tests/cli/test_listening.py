"""What a server tells people when it listens."""

import pytest

from streamscribe.bootstrap.server import Listening
from streamscribe.cli.serve import tell


@pytest.mark.parametrize("everywhere", [True, False])
def test_other_machines_are_spoken_of_where_they_can_come(everywhere, capsys):
    tell(Listening("http://127.0.0.1:8000", None, everywhere, 1.0, {}))
    told = capsys.readouterr().out
    assert "page            http://127.0.0.1:8000/" in told
    assert ("other machines" in told) == everywhere
