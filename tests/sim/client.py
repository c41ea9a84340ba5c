"""A client of the native protocol: what it sends, sends again after a broken connection, and is told.

It keeps to what `client.native.NativeClient` does, over connections of the simulation and with its `SendLog`.
"""

import asyncio
import random
from collections.abc import Callable

import msgspec

from streamscribe.client.send_log import SendLog, Sent
from streamscribe.core.ids import SessionId
from streamscribe.wire.frames import pack_frame
from streamscribe.wire.native_client import (
    AudioFields,
    EndMessage,
    EndpointFields,
    FlushMessage,
    ResumeMessage,
    StartMessage,
    UpdateMessage,
)
from streamscribe.wire.native_server import (
    AckMessage,
    ClosedMessage,
    ConnectedMessage,
    ErrorMessage,
    FlushedMessage,
    GoAwayMessage,
    ResultMessage,
    ResumedMessage,
    ServerWire,
    SlowDownMessage,
    SpeechStartedMessage,
    SpeechStoppedMessage,
    decode_server_message,
)
from tests.sim.network import Closed, WebSocket
from tests.sim.script import Ask, Bias, Say, Script

MAX_UNACKED_S = 3.0
MAX_BACKOFF_S = 2.0
GOING_AWAY = (1001, 1006, 1012)

Connect = Callable[[str], WebSocket]

_encode = msgspec.json.Encoder().encode


class SimClient:
    """Speaks its script in real time, or as fast as it may; resumes; or never comes back."""

    def __init__(
        self, name: str, script: Script, connect: Connect, rng: random.Random, told: Callable[[str, ServerWire], None]
    ) -> None:
        self.name = name
        self.script = script
        self.connected: ConnectedMessage | None = None
        self.results: list[ResultMessage] = []
        self.voice: list[SpeechStartedMessage | SpeechStoppedMessage] = []
        self.flushed: list[str] = []
        self.acks: list[int] = []
        self.closed: ClosedMessage | None = None
        self.error: ErrorMessage | None = None
        self.disconnects = 0
        self.longest_away_s = 0.0
        """From the end of a connection until the next one has the session."""
        self.slowed = False
        """It was told that its audio is not processed as fast as it comes."""
        self.gone = False
        """It never comes back."""
        self.impatient = rng.random() < 0.2
        """It sends as fast as it may."""
        self._connect = connect
        self._rng = rng
        self._told = told
        self._log = SendLog(int(MAX_UNACKED_S * script.options.audio.bytes_per_second))
        self._room = asyncio.Event()
        self._socket: WebSocket | None = None
        self._connections = 0
        self._version = 0
        self._last_error: ErrorMessage | None = None
        self._pause_s = 0.0

    @property
    def session_id(self) -> SessionId | None:
        """What its session is called on the bus; None before there is one."""
        return None if self.connected is None else SessionId(self.connected.resume_token.partition(".")[0])

    @property
    def over(self) -> bool:
        """Whether it has nothing to wait for."""
        return self.gone or self.closed is not None or self.error is not None

    async def run(self) -> None:
        """Returns when the session is over for this client."""
        socket = await self._enter()
        if socket is None:
            return
        speaking = asyncio.get_running_loop().create_task(self._speak())
        try:
            while socket is not None and not await self._read(socket):
                socket = await self._come_back()
        finally:
            speaking.cancel()
            await asyncio.wait([speaking])
        if not speaking.cancelled():
            speaking.result()

    def lose_connection(self, *, for_s: float, noticed_after_s: float, for_good: bool = False) -> bool:
        """The network breaks; the client comes back after so long, or never. False where there is none to break."""
        if self._socket is None or self.connected is None or self.over:
            return False
        socket, self._socket = self._socket, None
        self._pause_s = for_s
        self.gone = for_good
        self.disconnects += 1
        socket.sever(noticed_after_s)
        return True

    async def _enter(self) -> WebSocket | None:
        """A session's first connection; a server that has no room is asked again."""
        for _ in range(60):
            socket = self._connect(self.name)
            try:
                first = decode_server_message(await socket.recv())
                if isinstance(first, ConnectedMessage):
                    self.connected = first
                    self._told(self.name, first)
                    self._socket = socket
                    self._control(self._start())
                    return socket
                assert isinstance(first, ErrorMessage), first
                assert first.retry == "after", first
                while True:
                    await socket.recv()
            except Closed:
                await asyncio.sleep(self._rng.uniform(0.5, 1.5))
        raise AssertionError("nobody lets the client in")

    def _start(self) -> StartMessage:
        options = self.script.options
        endpoint = options.endpoint
        return StartMessage(
            audio=AudioFields(channels=options.audio.channels),
            mode=options.mode,
            words=options.words,
            hotwords=[{"phrase": hotword.phrase, "weight": hotword.weight} for hotword in options.hotwords],
            endpoint=EndpointFields(
                silence_ms=endpoint.silence_ms,
                max_segment_ms=endpoint.max_segment_ms,
                min_speech_ms=endpoint.min_speech_ms,
            ),
            framing="sequenced",
        )

    async def _speak(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for action in self.script.actions:
            if not self.impatient:
                await asyncio.sleep(began_s + action.due_s - loop.time())
            match action:
                case Say(data=data):
                    while self._log.full:
                        self._room.clear()
                        await self._room.wait()
                    self._transmit(self._log.audio(pack_frame(self._log.next_sequence, data)))
                case Ask(marker=marker):
                    self._control(FlushMessage(marker), marker)
                case Bias(phrases=phrases):
                    self._control(UpdateMessage([{"phrase": phrase} for phrase in phrases]))
            await asyncio.sleep(0)
        self._control(EndMessage())

    def _control(self, message: msgspec.Struct, marker: str | None = None) -> None:
        self._transmit(self._log.control(_encode(message).decode(), marker))

    def _transmit(self, sent: Sent) -> None:
        if self._socket is not None and sent.connection != self._connections:
            sent.connection = self._connections
            self._socket.transmit(sent.frame)

    async def _read(self, socket: WebSocket) -> bool:
        """Reads a connection to its end; whether the session is over."""
        self._last_error = None
        try:
            while True:
                self._take(decode_server_message(await socket.recv()))
        except Closed as closed:
            code = closed.code
        self._socket = None
        error = None if code == 1006 else self._last_error  # what broke was not closed for an error
        if self.closed is not None or self.gone:
            return True
        if error is not None and error.retry != "resume":
            self.error = error
            return True
        assert error is not None or code in GOING_AWAY, code
        return False

    async def _come_back(self) -> WebSocket | None:
        """Resumes; None where the server does not have the session any more."""
        assert self.connected is not None
        pause_s, self._pause_s = self._pause_s, 0.0
        backoff_s = 0.1
        since_s = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(pause_s + backoff_s * self._rng.uniform(0.5, 1.0))
            pause_s, backoff_s = 0.0, min(2 * backoff_s, MAX_BACKOFF_S)
            socket = self._connect(self.name)
            resume = ResumeMessage(
                session_id=self.connected.session_id,
                resume_token=self.connected.resume_token,
                last_version=self._version,
                last_acked_sequence=self._log.acked,
                framing="sequenced",
            )
            socket.transmit(_encode(resume).decode())
            try:
                while not isinstance(message := decode_server_message(await socket.recv()), ResumedMessage):
                    if isinstance(message, ErrorMessage) and message.retry == "never":
                        self.error = message
                        self.longest_away_s = max(self.longest_away_s, asyncio.get_running_loop().time() - since_s)
                        return None
            except Closed:
                continue
            self._told(self.name, message)
            self._socket = socket
            self._connections += 1
            self.longest_away_s = max(self.longest_away_s, asyncio.get_running_loop().time() - since_s)
            for sent in list(self._log.replay(message.next_sequence)):
                self._transmit(sent)
            return socket

    def _take(self, message: ServerWire) -> None:
        self._told(self.name, message)
        self._last_error = message if isinstance(message, ErrorMessage) else None
        match message:
            case ResultMessage():
                assert message.version > self._version, "versions grow"
                self._version = message.version
                self.results.append(message)
            case AckMessage(sequence=sequence):
                assert not self.acks or sequence >= self.acks[-1], (
                    f"acks never go back: {sequence} behind {self.acks[-1]}"
                )
                assert sequence < self._log.next_sequence, "only what was sent is acknowledged"
                self.acks.append(sequence)
                self._log.ack(sequence)
                self._room.set()
            case FlushedMessage(marker=marker):
                self.flushed.append(marker)
                self._log.flushed(marker)
            case SpeechStartedMessage() | SpeechStoppedMessage():
                self.voice.append(message)
            case SlowDownMessage():
                self.slowed = True
            case GoAwayMessage(retry_after_ms=retry_after_ms):
                self._pause_s = retry_after_ms / 1000
            case ClosedMessage():
                self.closed = message
