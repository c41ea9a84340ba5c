"""The worker's end of a bus that is measured: settles each record at once and answers it with its index.

Run as a module by `bench bus`, with the number of an inherited socket; ends with its link.
"""

import socket
import sys

import uvloop

from streamscribe.bus.backlog import audio_bytes
from streamscribe.bus.local.link import Link
from streamscribe.bus.local.worker import LocalWorkerBus
from streamscribe.core.checkpoint import Checkpoint
from streamscribe.core.records import Checkpointed, Progress, Record, SessionAbandoned
from streamscribe.ports import WorkerBus

CHECKPOINT_RECORDS = 10
"""A second of a session's chunks."""


def echo(bus: WorkerBus) -> None:
    """Answers the bus' records from now on."""

    def answer(record: Record) -> None:
        if isinstance(record, SessionAbandoned):
            return
        bus.emit(Progress(record.session_id, record.index))
        if record.index % CHECKPOINT_RECORDS == 0:
            bus.emit(Checkpointed(record.session_id, Checkpoint(record.index + 1, 0, 0, 0, (), (), 0)))
        bus.settle(record.session_id, audio_bytes(record))

    bus.attach_worker(answer)


async def _serve(descriptor: int) -> None:
    link = await Link.open(socket.socket(fileno=descriptor))
    echo(LocalWorkerBus(link))
    await link.closed


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
