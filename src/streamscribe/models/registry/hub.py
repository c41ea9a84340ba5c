"""Model hubs by HTTPS: each file by its own request, resumed where a connection broke, never led off to other hosts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import httpx

from streamscribe.models.registry.catalogue import FilePin, Source
from streamscribe.models.registry.errors import SourceFailed
from streamscribe.models.registry.staging import Staging

TIMEOUT = httpx.Timeout(30, connect=10)
MAX_REDIRECTS = 5
MAX_RESUMES = 50


@dataclass(frozen=True, slots=True)
class Hub:
    """A hub's address and the domains that its downloads may be redirected to."""

    url: httpx.URL
    file_path: str
    domains: tuple[str, ...]

    @classmethod
    def of(cls, kind: str) -> Self:
        """The hub of a source; Hugging Face's own variable HF_ENDPOINT names a mirror of it."""
        if kind == "modelscope":
            url = httpx.URL("https://modelscope.cn")
            return cls(url, "/models/{repo}/resolve/{revision}/{member}", ("modelscope.cn", "aliyuncs.com"))
        url = httpx.URL(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
        return cls(url, "/{repo}/resolve/{revision}/{member}", ("huggingface.co", "hf.co"))

    def address(self, source: Source, member: str) -> httpx.URL:
        """Where a file of a repository lies."""
        return self.url.join(self.file_path.format(repo=source.repo, revision=source.revision, member=member))

    def allows(self, url: httpx.URL) -> bool:
        """Whether a redirect may lead there: the hub's own host, or one of its domains by HTTPS."""
        if (url.scheme, url.host, url.port) == (self.url.scheme, self.url.host, self.url.port):
            return True
        return url.scheme == "https" and any(
            url.host == domain or url.host.endswith(f".{domain}") for domain in self.domains
        )


def fetch_hub(source: Source, staging: Staging) -> None:
    """Downloads the pending files of a repository; parts that are there already are continued."""
    hub = Hub.of(source.kind)
    with httpx.Client(timeout=TIMEOUT) as client:
        for pin in staging.pending():
            for _ in range(MAX_RESUMES):
                held_before = _held(staging, pin)
                try:
                    _download(client, hub, source, staging, pin)
                    break
                except httpx.HTTPError as error:
                    # A connection that brought something is worth another; one that brought nothing is not.
                    if _held(staging, pin) <= held_before:
                        raise SourceFailed(f"{hub.url.host}: {error or type(error).__name__}") from error
            else:
                raise SourceFailed(f"{hub.url.host}: the connection broke {MAX_RESUMES} times in {pin.name}")


def _held(staging: Staging, pin: FilePin) -> int:
    part = staging.part(pin)
    return part.stat().st_size if part.exists() else 0


def _download(client: httpx.Client, hub: Hub, source: Source, staging: Staging, pin: FilePin) -> None:
    (member,) = source.members(pin.name)
    held = _held(staging, pin)
    if held >= pin.size_bytes:
        staging.part(pin).unlink()
        held = 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={held}-"} if held else {})
    with _get(client, hub, hub.address(source, member), headers) as response:
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {held}-"):
            raise SourceFailed(f"{member}: the hub answered with another range than the one asked for")
        size = (held if resumed else 0) + int(response.headers.get("Content-Length", pin.size_bytes - held * resumed))
        if size != pin.size_bytes:
            raise SourceFailed(f"{member}: {size} bytes, the catalogue pins {pin.size_bytes}")
        staging.write(pin, response.iter_raw(), "download", resume=resumed)


@contextmanager
def _get(client: httpx.Client, hub: Hub, url: httpx.URL, headers: dict[str, str]) -> Iterator[httpx.Response]:
    """A successful response, after redirects within the hub."""
    for _ in range(MAX_REDIRECTS):
        with client.stream("GET", url, headers=headers) as response:
            if response.next_request is None:
                if not response.is_success:
                    raise SourceFailed(f"{url.host} answered {response.status_code} {response.reason_phrase}")
                yield response
                return
            url = response.next_request.url
            if not hub.allows(url):
                raise SourceFailed(f"a redirect to {url.host}, which is no host of this hub, was refused")
    raise SourceFailed(f"{hub.url.host}: more than {MAX_REDIRECTS} redirects")
