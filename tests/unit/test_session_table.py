"""The table of stages."""

import pytest

from streamscribe.core.session_table import TABLE, Stage, Step, next_stage


def test_every_stage_has_a_row() -> None:
    assert set(TABLE) == set(Stage)


def test_closed_is_the_end() -> None:
    assert TABLE[Stage.CLOSED] == {}


def test_every_stage_is_reached_and_can_end() -> None:
    reached = {Stage.CREATED}
    for _ in Stage:
        reached |= {stage for known in reached for stage in TABLE[known].values()}
    assert reached == set(Stage)
    assert all(row[Step.CLOSE] is Stage.CLOSED for stage, row in TABLE.items() if stage is not Stage.CLOSED)


def test_a_detached_session_goes_back_to_where_it_was() -> None:
    assert next_stage(Stage.DETACHED, Step.RESUME) is Stage.STREAMING
    assert next_stage(Stage.DETACHED, Step.RESUME_ENDED) is Stage.FINALIZING


def test_a_step_that_is_not_in_the_table_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="first audio in closed"):
        next_stage(Stage.CLOSED, Step.BEGIN)
