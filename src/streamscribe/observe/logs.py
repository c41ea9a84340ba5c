"""Logs of static messages with named attributes. What is not on the list of attributes never reaches a line.

Speech, keys, hot words, file names, query strings and the texts of foreign exceptions are on no list. Our own errors'
messages are safe by their contract.
"""

import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

from streamscribe.core.errors import StreamScribeError
from streamscribe.settings import ObserveSettings

ATTRIBUTES = frozenset(
    {
        "address", "attempt", "batch_size", "bytes", "close_code", "code", "component", "count", "deadline_s",
        "detail", "difference", "elapsed_s", "error", "field", "gateways", "had", "have", "host", "model",
        "partitions", "pid", "port", "ports", "profile", "reason", "record", "role", "seconds", "session_id",
        "sessions", "sha256", "signal", "stage", "tenant_id", "trace_id", "url", "version",
    }
)  # fmt: skip
"""Attributes that a line may have. `reason` and `error` hold codes and class names; `url` our own address; `detail`
what is wrong with settings, files of models, brokers or a store, never anything of a client's."""

MAX_VALUE_CHARS = 200
MAX_FRAMES = 20

_FRAME_KEYS = frozenset({"event", "level", "logger", "timestamp", "failure"})


def configure(settings: ObserveSettings, stream: TextIO | None = None) -> None:
    """Sends all logs of the process, libraries' too, to `stream` (standard error) in the chosen form.

    Of libraries only warnings and worse are kept, and of these only the message's template: what it was formatted
    with may be anything.
    """
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _explain_failure,
        _keep_known,
    ]
    render: Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    handler.addFilter(_without_arguments)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # warns of each bad form, with bytes that it held
    logging.getLogger("streamscribe").setLevel(settings.log_level.upper())
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger of a module of ours: `get_logger(__name__)`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def _without_arguments(record: logging.LogRecord) -> bool:
    """Takes the arguments out of a library's line; ours have none."""
    if not record.name.startswith("streamscribe"):
        record.msg, record.args = str(record.msg).strip(), ()
    return True


def _explain_failure(logger: Any, method: str, event: EventDict) -> EventDict:
    """An exception becomes its class, its cause's and the places it came through; its text only if it is ours."""
    info = event.pop("exc_info", None)
    error = info[1] if isinstance(info, tuple) else info
    if info is True:
        error = sys.exc_info()[1]
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, BaseException):
        frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
        event["failure"] = {
            "error": type(error).__name__,
            "message": error.message if isinstance(error, StreamScribeError) else "",
            "cause": type(error.__cause__).__name__ if error.__cause__ is not None else "",
            "at": [f"{frame.filename.rpartition('site-packages/')[2]}:{frame.lineno} {frame.name}" for frame in frames],
        }
    return event


def _keep_known(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drops attributes that are not on the list, and cuts long values."""
    kept: dict[str, Any] = {}
    for name, value in event.items():
        if name in _FRAME_KEYS or name.startswith("_"):
            kept[name] = value
        elif name in ATTRIBUTES:
            kept[name] = value if isinstance(value, int | float | list | None) else str(value)[:MAX_VALUE_CHARS]
    return kept
