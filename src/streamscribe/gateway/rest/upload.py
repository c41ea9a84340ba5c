"""Reads a multipart form from the wire: its file goes to disk as it comes, counted; its fields are few and short."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from streamscribe.core.errors import BadRequest, TooLarge, UnsupportedFormat
from streamscribe.gateway.spool import Spool

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MAX_FIELDS = 200
MAX_FIELD_BYTES = 2**16
MAX_OVERHEAD_BYTES = 2**20
"""What a form may have beyond its file: fields and boundaries."""
_WRITE_BYTES = 2**20


@dataclass
class Upload:
    """A form that was read: its fields in order, and where its file lies until the upload is left."""

    path: Path
    fields: list[tuple[str, str]] = field(default_factory=list)
    has_file: bool = False


@asynccontextmanager
async def receive_upload(
    body: AsyncIterator[bytes], *, content_type: str, content_length: int | None, max_file_bytes: int
) -> AsyncIterator[Upload]:
    """Gives the form of a request's body; its file is gone afterwards, whatever happens.

    Raises BadRequest, TooLarge and, for a body that is no form, UnsupportedFormat. Too large a `content_length` is
    refused before anything is read.
    """
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise UnsupportedFormat("the body must be multipart/form-data with a boundary")
    if content_length is not None and content_length > max_file_bytes + MAX_OVERHEAD_BYTES:
        raise TooLarge(f"a file may have {max_file_bytes} bytes", field="file")
    spool = Spool(max_file_bytes)
    try:
        upload = Upload(spool.path)
        await _read(body, boundary, upload, spool)
        await spool.finish()
        yield upload
    finally:
        spool.close()


async def _read(body: AsyncIterator[bytes], boundary: bytes, upload: Upload, spool: Spool) -> None:
    form = _Form(upload)
    try:
        parser = MultipartParser(boundary, form.callbacks())
        async for chunk in body:
            parser.write(chunk)
            if len(form.unwritten) >= _WRITE_BYTES:
                await spool.write(form.take())
    except FormParserError:  # of which a boundary too long for the parser is one, too
        raise BadRequest("the form cannot be read") from None
    await spool.write(form.take())
    if not form.complete:
        raise BadRequest("the form is cut off")


class _Form:
    """Takes what the parser finds. The first part called `file` is the file; other files are refused."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self._header = b""
        self._disposition = b""
        self._value = b""
        self._name = ""
        self._value_bytes = bytearray()
        self._in_file = False
        self.unwritten = bytearray()
        self.complete = False

    def callbacks(self) -> "MultipartCallbacks":
        """For the parser, under its names."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._finish,
        }

    def take(self) -> bytes:
        """What has come of the file since the last call."""
        data = bytes(self.unwritten)
        self.unwritten.clear()
        return data

    def _begin(self) -> None:
        self._header = self._value = self._disposition = b""
        self._value_bytes.clear()

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode(errors="replace")
        self._in_file = b"filename" in options or self._name == "file"
        if self._in_file and (self._name != "file" or self._upload.has_file):
            raise BadRequest("the form must hold one file, named file", field="file")
        self._upload.has_file |= self._in_file

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self.unwritten += data[start:end]
        else:
            self._value_bytes += data[start:end]
            if len(self._value_bytes) > MAX_FIELD_BYTES:
                raise TooLarge(f"a field is longer than {MAX_FIELD_BYTES} bytes")

    def _end(self) -> None:
        if self._in_file:
            return
        if len(self._upload.fields) >= MAX_FIELDS:
            raise TooLarge(f"the form has more than {MAX_FIELDS} fields")
        try:
            value = self._value_bytes.decode()
        except UnicodeDecodeError:
            raise BadRequest("the form's fields must be UTF-8") from None
        self._upload.fields.append((self._name, value))

    def _finish(self) -> None:
        self.complete = True
