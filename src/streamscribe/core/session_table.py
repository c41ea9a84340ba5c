"""The stages of a session and every way from one to another.

Everything that changes a session's stage is in this table; nothing else does. A pair that is not in it is a defect
of ours: `next_stage` raises AssertionError for it.

A session is CREATED until something is published for it: a connection lost before leaves nothing to resume.
STREAMING takes audio. FINALIZING waits for the last finals, and takes no more audio. DETACHED is a session without a
connection; whether audio had ended is what tells its two ways back apart, and a recogniser that finishes meanwhile
changes nothing: the finals wait for the client. A session that is done is DETACHED too, until its client is known to
have its last words: what was written to a connection that breaks is lost. CLOSED is the end, and is reached exactly
once.
"""

from enum import StrEnum

from streamscribe.core.integrity import ensure


class Stage(StrEnum):
    """Where a session stands."""

    CREATED = "created"
    STREAMING = "streaming"
    FINALIZING = "finalizing"
    DETACHED = "detached"
    CLOSED = "closed"


class Step(StrEnum):
    """What can change a stage, in a reader's words: the labels of the diagram in docs/protocol.md."""

    BEGIN = "first audio"
    END = "end"
    LOSE = "connection lost"
    RESUME = "resume"
    RESUME_ENDED = "resume after the end"
    FINISH = "recognition done"
    DELIVER = "close answered"
    CLOSE = "fatal error or timeout"


TABLE: dict[Stage, dict[Step, Stage]] = {
    Stage.CREATED: {
        Step.BEGIN: Stage.STREAMING,
        Step.RESUME: Stage.CREATED,
        Step.END: Stage.CLOSED,
        Step.LOSE: Stage.CLOSED,
        Step.CLOSE: Stage.CLOSED,
    },
    Stage.STREAMING: {
        Step.RESUME: Stage.STREAMING,
        Step.END: Stage.FINALIZING,
        Step.LOSE: Stage.DETACHED,
        Step.CLOSE: Stage.CLOSED,
    },
    Stage.FINALIZING: {
        Step.RESUME_ENDED: Stage.FINALIZING,
        Step.LOSE: Stage.DETACHED,
        Step.FINISH: Stage.DETACHED,
        Step.CLOSE: Stage.CLOSED,
    },
    Stage.DETACHED: {
        Step.RESUME: Stage.STREAMING,
        Step.RESUME_ENDED: Stage.FINALIZING,
        Step.FINISH: Stage.DETACHED,
        Step.DELIVER: Stage.CLOSED,
        Step.CLOSE: Stage.CLOSED,
    },
    Stage.CLOSED: {},
}


def next_stage(stage: Stage, step: Step) -> Stage:
    """The stage after `step`; raises AssertionError where the table has none."""
    row = TABLE[stage]
    ensure(step in row, f"a step of the table: {step} in {stage}")
    return row[step]
