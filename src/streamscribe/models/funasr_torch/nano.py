"""Fun-ASR-Nano: a SenseVoice encoder whose rows a small Qwen3 reads, as two steps that can run in two places."""

import threading
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from streamscribe.core.audio import SAMPLE_RATE
from streamscribe.core.errors import AudioTooLong, ModelUnavailable
from streamscribe.models.fbank import MELS, Fbank
from streamscribe.models.funasr_torch.device import open_device
from streamscribe.models.funasr_torch.nano_dialogue import encoded
from streamscribe.models.funasr_torch.nano_identity import decoder_identity, encoder_identity
from streamscribe.models.funasr_torch.nano_modules import NanoModules, load_nano
from streamscribe.models.funasr_torch.nano_prompt import language_name, plain_text, token_limit
from streamscribe.models.funasr_torch.transfer import padded_on, rows_from
from streamscribe.models.funasr_torch.watch import Watch
from streamscribe.models.lfr import FRONT_END, STACKED, STRIDE, Rows, low_frame_rate
from streamscribe.models.ports import (
    DecodeRequest,
    Embedding,
    Frames,
    Hypothesis,
    Identity,
    LookAgain,
    Samples,
    Window,
    frame_count,
)

_MAX_SAMPLES = 30 * SAMPLE_RATE
_PARITY = 1e-3
_PARITY_HALF = 5e-2
"""The largest difference that rounding makes, in shares of the largest value: in float32, and in 16 bits."""
_PARITY_ROWS = 24
"""Rows of 60 ms with which that is tried: three tokens, and one in a shorter prompt."""


class _Local(threading.local):
    """What each thread that computes features has of its own."""

    def __init__(self) -> None:
        self.fbank = Fbank()


class FunAsrNano:
    """Encodes and decodes segments of up to 30 s; not thread-safe.

    The encoder computes in float32. Each step pads its batch and hides the padding, so that batch mates change no more
    than rounding.
    """

    def __init__(self, files: Mapping[str, Path], *, device: str = "cpu", threads: int = 1) -> None:
        """Loads a FunASR directory by its files; raises ModelUnavailable where its attention computes wrongly here."""
        self._device = open_device(device, threads=threads)
        self._parts = load_nano(files, self._device)
        self._width = self._parts.language_model.get_input_embeddings().weight.shape[1]
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        """The encoder's own, so that it runs beside the language model. Its rows leave the device before it is left."""
        self._local = _Local()
        self._encoder_identity = encoder_identity(self._parts, self._device)
        self._decoder_identity = decoder_identity(self._parts, self._device)
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))  # on which the weights were loaded
        with torch.inference_mode():
            self._check_attention()

    @property
    def parts(self) -> NanoModules:
        """What it is made of, for a language model stage of its own (`continuous.ContinuousDecoder`)."""
        return self._parts

    @property
    def max_samples(self) -> int:
        """30 s, as long as the segments that it was trained on."""
        return _MAX_SAMPLES

    def check_language(self, code: str) -> None:
        """Raises BadRequest for a language tag that it does not know; from any thread."""
        language_name(code)

    @property
    def front_end(self) -> Identity:
        """Kaldi's filter bank, seven frames stacked every sixth."""
        return FRONT_END

    @property
    def encoder_identity(self) -> Identity:
        """That of the encoder and the adaptor on this device."""
        return self._encoder_identity

    @property
    def decoder_identity(self) -> Identity:
        """That of the language model on this device."""
        return self._decoder_identity

    @property
    def width(self) -> int:
        """Columns of an embedding: those of the language model."""
        return int(self._width)

    def num_tokens(self, samples: int, window: Window = Window.SHORT) -> int:
        """A row for each 480 ms or less: three times half of the encoder's rows, rounded up."""
        return self._tokens_of(-(-frame_count(samples) // STRIDE))

    def features(self, samples: Samples, frames: Frames | None = None, window: Window = Window.SHORT) -> Rows:
        """The segment's rows of 60 ms; it has no other window. Raises AudioTooLong for more than `max_samples`."""
        if len(samples) > _MAX_SAMPLES:
            raise AudioTooLong("a segment is longer than 30 s")
        return low_frame_rate(self._local.fbank.frames(samples) if frames is None else frames)

    def group(self, features: Rows) -> Hashable:
        """All share a pass."""
        return None

    def encode(self, batch: Sequence[Rows]) -> list[Embedding]:
        """What the language model will read of each segment; nothing of less than a frame."""
        encoded = [np.zeros((0, self._width), np.float32) for _ in batch]
        spoken = [index for index, rows in enumerate(batch) if len(rows)]
        if spoken:
            with torch.inference_mode(), torch.cuda.stream(self._stream):
                whole, lengths = rows_from(*self._encode([batch[index] for index in spoken]))
            for index, rows, length in zip(spoken, whole, lengths, strict=True):
                encoded[index] = rows[: self._tokens_of(length)].copy()  # a view would keep the whole batch
        return encoded

    def decode(self, batch: Sequence[DecodeRequest]) -> list[Hypothesis | LookAgain]:
        """One hypothesis each, punctuated by the model and without word times, which it cannot tell reliably."""
        hypotheses: list[Hypothesis | LookAgain] = [
            Hypothesis("", request.language, punctuated=True) for request in batch
        ]
        spoken = [index for index, one in enumerate(batch) if len(one.embedding) and not one.silent]
        if spoken:
            with torch.inference_mode():
                found = self._decode([batch[index] for index in spoken])
            for index, hypothesis in zip(spoken, found, strict=True):
                hypotheses[index] = hypothesis
        return hypotheses

    def _encode(self, batch: Sequence[Rows]) -> tuple[Tensor, Tensor]:
        """The batch's rows, as many as the longest segment has tokens, and how many each had before halving.

        All tensors are made, read and freed on the stream that is current, and only the weights are older, so that none
        has to be kept for another stream (`record_stream`).
        """
        speech, counts = padded_on(self._device, batch)
        memory, lengths = self._parts.audio_encoder(speech, counts)
        # What the encoder makes of padding would be read by the adaptor where it joins rows.
        inside = torch.arange(memory.shape[1], device=self._device) < lengths[:, None]
        adapted, lengths = self._parts.adaptor(memory * inside[:, :, None], lengths)
        return adapted[:, : self._tokens_of(adapted.shape[1])], lengths

    def _tokens_of(self, rows: int) -> int:
        for _ in range(self._parts.halvings):
            rows = -(-rows // 2)
        return rows

    def _decode(self, batch: Sequence[DecodeRequest]) -> list[Hypothesis]:
        model, tokenizer = self._parts.language_model, self._parts.tokenizer
        prompts = [self._prompt(request) for request in batch]
        limits = [token_limit(request.num_samples) for request in batch]
        end = model.config.eos_token_id
        watch = Watch(limits, end)
        generated = model.generate(
            **left_padded(prompts),
            logits_processor=[watch],
            max_new_tokens=max(limits) + 1,
            do_sample=False,
            num_beams=1,
            pad_token_id=end if model.config.pad_token_id is None else model.config.pad_token_id,
        )
        found = []
        for index, request in enumerate(batch):
            tokens, confidence = watch.result(index, generated[index].tolist())
            text = plain_text(tokenizer.decode(tokens, skip_special_tokens=True))
            found.append(Hypothesis(text, request.language, confidence if text else 0.0, punctuated=True))
        return found

    def _prompt(self, request: DecodeRequest) -> Tensor:
        """The dialogue as the language model's own embeddings, with the audio's rows in their place."""
        before, after = map(self._embedded, encoded(request, self._parts))
        rows = torch.tensor(request.embedding, device=before.device, dtype=before.dtype)
        return torch.cat([before, rows, after])

    def _embedded(self, tokens: Sequence[int]) -> Tensor:
        ids = torch.tensor(tokens, device=self._device)
        embedded: Tensor = self._parts.language_model.get_input_embeddings()(ids)
        return embedded

    def _check_attention(self) -> None:
        """Raises ModelUnavailable where `sdpa` attends unlike `eager`: its texts could not be relied on, batch or not.

        Whether a batch is encoded as its members are is asked by who batches (`encoder.parity`).
        """
        model = self._parts.language_model
        wave = np.sin(np.arange(_PARITY_ROWS * STACKED * MELS, dtype=np.float32)).reshape(_PARITY_ROWS, -1)
        embedding = self.encode([wave])[0]
        prompts = left_padded([self._prompt(DecodeRequest(rows, 0)) for rows in (embedding, embedding[:1])])
        scores = model(**prompts).logits[:, -1]
        model.set_attn_implementation("eager")
        eager = model(**prompts).logits[:, -1]
        model.set_attn_implementation("sdpa")
        allowed = _PARITY if scores.dtype == torch.float32 else _PARITY_HALF
        if not float((scores - eager).abs().max() / eager.abs().max()) <= allowed:
            raise ModelUnavailable("Fun-ASR-Nano's attention computes wrongly with the installed packages")


def left_padded(prompts: Sequence[Tensor]) -> dict[str, Tensor]:
    """The prompts as one batch whose texts end together, each with positions from 0 on."""
    longest = max(len(prompt) for prompt in prompts)
    padded = torch.stack([torch.nn.functional.pad(prompt, (0, 0, longest - len(prompt), 0)) for prompt in prompts])
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=padded.device)
    mask = (torch.arange(longest, device=padded.device) >= longest - lengths[:, None]).long()
    positions = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)
    return {"inputs_embeds": padded, "attention_mask": mask, "position_ids": positions}
