"""A batch's way to a device and back: one copy up from pinned memory, and one copy down to it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streamscribe.models.lfr import Rows


def padded_on(device: torch.device, batch: Sequence[Rows]) -> tuple[Tensor, Tensor]:
    """The segments as one batch on the device, zeros behind the shorter ones, shape (segments, rows, columns), and
    their lengths.

    What waits is padded in pinned memory, of which PyTorch keeps a pool: a block is used again only when the copy that
    reads it has ended. So the copies wait for nobody, and stand in order on the current stream.
    """
    pin = device.type == "cuda"
    shape = (len(batch), max(map(len, batch)), batch[0].shape[1])
    whole = torch.zeros(shape, dtype=torch.float32, pin_memory=pin)
    for place, rows in zip(whole.numpy(), batch, strict=True):
        place[: len(rows)] = rows
    lengths = torch.tensor([len(rows) for rows in batch], dtype=torch.long)
    if pin:
        lengths = lengths.pin_memory()
    return whole.to(device, non_blocking=True), lengths.to(device, non_blocking=True)


def rows_from(whole: Tensor, lengths: Tensor) -> tuple[npt.NDArray[np.float32], list[int]]:
    """A batch of rows in float32 and its lengths, in memory of this machine; waits for the stream that makes them.

    Both come down by one copy each, and one event behind them is waited for. The array is a view of pinned memory:
    who keeps a part of it keeps the whole.
    """
    whole, lengths = whole.float().contiguous(), lengths.long()
    if whole.device.type == "cuda":
        stream = torch.cuda.current_stream(whole.device)
        pinned = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in (whole, lengths)]
        for there, here in zip(pinned, (whole, lengths), strict=True):
            there.copy_(here, non_blocking=True)
        copied = torch.cuda.Event(blocking=True)
        copied.record(stream)
        copied.synchronize()
        whole, lengths = pinned
    return whole.numpy(), lengths.tolist()
