"""One chunk of streaming Paraformer for many sessions at once, by FunASR's own layers.

FunASR's `forward_chunk` takes one session. Here each row of the batch has its own age, length and number of tokens:
positions are a vector, keys that a row does not have are masked, CIF runs over all rows, and the decoder's padding on
the right stays behind what its causal memory reads. Only rows that fired decode, as only they do in FunASR.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from streamscribe.models.funasr_torch.load import StreamingModules
from streamscribe.models.funasr_torch.state import ENCODER_LOOK_BACK, Sizes, StreamState
from streamscribe.models.paraformer import cif
from streamscribe.models.paraformer.chunk_grid import LOOK_AHEAD_ROWS
from streamscribe.models.paraformer.chunk_tokens import middle_rows


@dataclass(frozen=True, slots=True)
class Piece:
    """The next rows of a state's stream, (rows, row width): a whole chunk, or with `last` up to that.

    Without any row, a last piece is FunASR's tail chunk: what is known of the look-ahead is all there will be.
    """

    state: StreamState
    rows: Tensor
    last: bool


@dataclass(frozen=True, slots=True)
class Heard:
    """A token: its id, the logarithm of its probability, and the row, with fraction, in the middle of its weight."""

    id: int
    log_probability: float
    row: float


class ChunkNetwork:
    """Runs chunks of one length; not thread-safe."""

    def __init__(self, modules: StreamingModules) -> None:
        self._encoder, self._predictor, self._decoder = modules.encoder, modules.predictor, modules.decoder
        self._layers = [*modules.encoder.encoders0, *modules.encoder.encoders]
        attention, decoding = self._layers[0].self_attn, modules.decoder.decoders[0]
        self.sizes = Sizes(
            row_width=self._layers[0].in_size,
            width=modules.encoder.output_size(),
            encoder_layers=len(self._layers),
            encoder_heads=attention.h,
            decoder_layers=len(modules.decoder.decoders),
            decoder_heads=decoding.src_attn.h,
            history=decoding.self_attn.kernel_size - 1,
        )
        device = modules.predictor.cif_output.weight.device
        depth = self.sizes.row_width
        step = torch.log(torch.tensor([10000.0])) / (depth / 2 - 1)
        self._frequencies = torch.exp(torch.arange(depth / 2) * -step).to(device)

    def run(self, pieces: Sequence[Piece]) -> "Outcome":
        """The tokens of each piece, and what its state becomes; no state has changed yet. Needs inference mode."""
        chunk = _Chunk(pieces)
        entered = self._enter(chunk)
        memory, encoder_news = self._encode(entered, chunk)
        fired, embeddings, carried = self._fire(memory, chunk)
        middles = [
            middle_rows(where, piece.state.rows - LOOK_AHEAD_ROWS, piece.state.middle)
            for piece, where in zip(pieces, fired.middles.tolist(), strict=True)
        ]
        spoke = [index for index, count in enumerate(fired.counts) if count]
        tokens: list[list[Heard]] = [[] for _ in pieces]
        decoder_news: list[_DecoderNews] = []
        if spoke:
            logits, decoder_news = self._decode(embeddings, memory, chunk, spoke)
            best, ids = (part.cpu() for part in torch.log_softmax(logits, dim=-1).max(dim=-1))
            for place, index in enumerate(spoke):
                tokens[index] = [
                    Heard(int(ids[place, n]), float(best[place, n]), middles[index][n])
                    for n in range(fired.counts[index])
                ]
        return Outcome(chunk, tokens, middles, entered, encoder_news, fired.carried, carried, spoke, decoder_news)

    def _enter(self, chunk: "_Chunk") -> Tensor:
        """Rows scaled and coded by position, behind the overlap: (batch, overlap and rows, row width)."""
        scale = self.sizes.width**0.5
        starts = torch.tensor([piece.state.rows for piece in chunk.pieces], device=chunk.rows.device)
        positions = starts[:, None] + torch.arange(1, chunk.rows.shape[1] + 1, device=starts.device)
        angles = positions.float()[:, :, None] * self._frequencies
        rows = chunk.rows * scale + torch.cat([torch.sin(angles), torch.cos(angles)], dim=2)
        # FunASR scales the tail chunk's rows twice: its model hears them so, and so do we.
        overlap = torch.stack(
            [piece.state.overlap * scale if chunk.is_tail(piece) else piece.state.overlap for piece in chunk.pieces]
        )
        return torch.cat([overlap, rows], dim=1)

    def _encode(self, x: Tensor, chunk: "_Chunk") -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """The encoder's output, zero behind each row's end, and the keys and values of the chunk by layer."""
        news = []
        for index, layer in enumerate(self._layers):
            attention = layer.self_attn
            residual = x
            query, key, value, plain = attention.forward_qkv(layer.norm1(x))
            memory = attention.forward_fsmn(plain, chunk.frame_mask)
            news.append((key[:, :, : chunk.chunk_rows], value[:, :, : chunk.chunk_rows]))
            if chunk.any_past:
                past = [piece.state.encoder_cache[index] for piece in chunk.pieces]
                key, value = _behind([one[0] for one in past], key), _behind([one[1] for one in past], value)
            heard = _attend(attention, query, key, value, chunk.encoder_mask) + memory
            x = residual + heard if layer.in_size == layer.size else heard
            x = x + layer.feed_forward(layer.norm2(x))
        x = self._encoder.after_norm(x)
        return x if chunk.frame_mask is None else x * chunk.frame_mask[:, :, None], news

    def _fire(self, memory: Tensor, chunk: "_Chunk") -> tuple[cif.Fired, Tensor, Tensor]:
        """Where tokens fire, their embeddings (batch, tokens, width), and what stands for the rest (batch, width)."""
        predictor = self._predictor
        context = torch.relu(predictor.cif_conv1d(predictor.pad(memory.transpose(1, 2)))).transpose(1, 2)
        weights = torch.sigmoid(predictor.cif_output(context)).squeeze(-1)
        weights = torch.relu(weights * predictor.smooth_factor - predictor.noise_threshold)
        weights = weights * chunk.heard_now
        carried_alpha = torch.stack([piece.state.alpha for piece in chunk.pieces])
        alphas = torch.cat([carried_alpha, weights, torch.zeros_like(carried_alpha)], dim=1).cpu().numpy()
        for index, (piece, length) in enumerate(zip(chunk.pieces, chunk.lengths, strict=True)):
            if piece.last:
                alphas[index, 1 + length] = predictor.tail_threshold
        fired = cif.integrate(alphas, predictor.threshold)
        carried_hidden = torch.stack([piece.state.hidden for piece in chunk.pieces])
        rows = torch.cat([carried_hidden[:, None], memory, torch.zeros_like(memory[:, :1])], dim=1)
        parts = torch.from_numpy(fired.weights).to(rows.device)
        rest = torch.from_numpy(fired.carried_weights).to(rows.device)
        return fired, parts @ rows, (rest[:, None] @ rows)[:, 0]

    def _decode(
        self, embeddings: Tensor, memory: Tensor, chunk: "_Chunk", spoke: list[int]
    ) -> tuple[Tensor, list["_DecoderNews"]]:
        """Logits (rows that spoke, tokens, vocabulary), and what each decoder layer remembers of them."""
        states = [chunk.pieces[index].state for index in spoke]
        x, memory = embeddings[spoke], memory[spoke]
        any_past, mask = chunk.decoder_mask(spoke)
        news = []
        for index, layer in enumerate(self._decoder.decoders):
            history = torch.stack([state.history[index] for state in states])
            # FunASR's memory drops the first column of what it is given.
            heard, columns = layer.self_attn(
                layer.norm2(layer.feed_forward(layer.norm1(x))), None, functional.pad(history, (1, 0))
            )
            x = x + heard
            query, key, value = layer.src_attn.forward_qkv(layer.norm3(x), memory)
            news.append(_DecoderNews(key[:, :, -chunk.chunk_rows :], value[:, :, -chunk.chunk_rows :], columns))
            if any_past:
                past = [state.decoder_cache[index] for state in states]
                key, value = _behind([one[0] for one in past], key), _behind([one[1] for one in past], value)
            x = x + _attend(layer.src_attn, query, key, value, mask)
        for layer in self._decoder.decoders3:
            x = layer.forward_chunk(x, memory)[0]
        return self._decoder.output_layer(self._decoder.after_norm(x)), news


class _Chunk:
    """The pieces of one run, padded on the right to one length, and the masks that tell padding from sound.

    Masks are None where there is nothing to hide, which is how most chunks are.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.chunk_rows = pieces[0].state.chunk_rows
        self.lengths = [LOOK_AHEAD_ROWS + len(piece.rows) for piece in pieces]
        self.rows = torch.nn.utils.rnn.pad_sequence([piece.rows for piece in pieces], batch_first=True)
        device, longest = self.rows.device, max(self.lengths)
        columns = torch.arange(longest, device=device)
        sound = columns < torch.tensor(self.lengths, device=device)[:, None]
        self.frame_mask = None if min(self.lengths) == longest else sound.float()
        heard_until = [n if piece.last else self.chunk_rows for piece, n in zip(pieces, self.lengths, strict=True)]
        self.heard_now = (columns < torch.tensor(heard_until, device=device)[:, None]).float()
        window = ENCODER_LOOK_BACK * self.chunk_rows
        past = [min(piece.state.rows, window) for piece in pieces]
        self.any_past = max(past) > 0
        self._sound = sound
        self.encoder_mask = self._key_mask(past, window if self.any_past else 0, range(len(pieces)))

    def is_tail(self, piece: Piece) -> bool:
        return piece.last and not len(piece.rows)

    def decoder_mask(self, spoke: list[int]) -> tuple[bool, Tensor | None]:
        """Whether any of the rows has decoded before, and the mask over past and present keys."""
        past = [self.chunk_rows if self.pieces[index].state.decoded else 0 for index in spoke]
        return max(past) > 0, self._key_mask(past, max(past), spoke)

    def _key_mask(self, past: list[int], window: int, indices: Sequence[int]) -> Tensor | None:
        """1 where a piece has a key, of `window` past ones and the present, (pieces, 1, keys)."""
        if self.frame_mask is None and min(past) == window:
            return None
        sound = self._sound[list(indices)]
        columns = torch.arange(window, device=sound.device)
        before = columns < torch.tensor(past, device=sound.device)[:, None]
        return torch.cat([before, sound], dim=1)[:, None].float()


@dataclass(frozen=True, slots=True)
class _DecoderNews:
    key: Tensor
    value: Tensor
    columns: Tensor


@dataclass(frozen=True, slots=True)
class Outcome:
    """The tokens of each piece, and what `advance` makes of the states; last pieces leave none."""

    chunk: _Chunk
    tokens: list[list[Heard]]
    middles: list[list[float]]
    entered: Tensor
    encoder_news: list[tuple[Tensor, Tensor]]
    carried: npt.NDArray[np.float32]
    hidden: Tensor
    spoke: list[int]
    decoder_news: list[_DecoderNews]

    def advance(self, index: int) -> None:
        """Makes the piece's state what the piece made of it; takes no memory, so it cannot fail."""
        state = self.chunk.pieces[index].state
        rows = state.chunk_rows
        ring = state.rows // rows % ENCODER_LOOK_BACK * rows
        for layer, (key, value) in enumerate(self.encoder_news):
            state.encoder_cache[layer, 0, :, ring : ring + rows] = key[index]
            state.encoder_cache[layer, 1, :, ring : ring + rows] = value[index]
        state.overlap.copy_(self.entered[index, -LOOK_AHEAD_ROWS:])
        state.middle = self.middles[index][len(self.tokens[index])]
        state.alpha.fill_(float(self.carried[index]))
        state.hidden.copy_(self.hidden[index])
        state.rows += rows
        if self.tokens[index]:
            count, place = len(self.tokens[index]), self.spoke.index(index)
            for layer, news in enumerate(self.decoder_news):
                state.decoder_cache[layer, 0] = news.key[place]
                state.decoder_cache[layer, 1] = news.value[place]
                state.history[layer] = news.columns[place, :, count : count + state.history.shape[2]]
            state.decoded = True


def _behind(past: Sequence[Tensor], present: Tensor) -> Tensor:
    """What each stream has, (heads, keys, size), before what the batch has now: each is copied once."""
    batch, heads, count, size = present.shape
    before = past[0].shape[1]
    whole = present.new_empty((batch, heads, before + count, size))
    torch.stack(past, out=whole[:, :, :before])
    whole[:, :, before:] = present
    return whole


def _attend(attention: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    scores = torch.matmul(query * attention.d_k**-0.5, key.transpose(-2, -1))
    return attention.forward_attention(value, scores, mask)
