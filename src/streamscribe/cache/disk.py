"""Blobs in a folder: one sealed file each, named by its key."""

import errno
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from threading import Lock
from weakref import finalize

from streamscribe.cache.blobs import SEAL_HEADER_BYTES, Seal, Sealed
from streamscribe.cache.expiry import MAX_ENTRIES, ExpiringBooks
from streamscribe.core.cachekey import CacheKey, Owner
from streamscribe.core.errors import CacheUnavailable
from streamscribe.core.integrity import ensure
from streamscribe.files import open_regular
from streamscribe.ports import Blob, Usage, Verified

_KEY = re.compile(r"[0-9a-f]{64}\Z")
_NEW = re.compile(r"new-[0-9a-f]{64}-[a-z0-9_]{8}\Z")
"""A file that is being written: this process' own names only, as a folder may hold what others call new."""


_LOCK = ".lock"
_IN_USE = "another server uses it; give each server a folder of its own"


@dataclass(frozen=True, slots=True)
class _File:
    key: CacheKey
    used_s: float
    size_bytes: int
    owner: Owner
    expires_s: float


class DiskBlobs:
    """A `BlobStore` of at most `max_bytes` of files, of which one owner has at most its share; it survives restarts.

    A file is written under another name and then renamed, so that whoever is killed at whatever moment leaves whole
    blobs only; what a crash of the machine cuts does not verify. Files are readable by their owner only. The least
    recently used go, also over a restart: a file's time is that of its last use.

    One server at a time uses a folder, `alone`, until it closes it or ends. Another process may open it to look, verify
    and purge; what it takes away is a miss here. The constructor reads every file's header, and raises OSError if the
    folder cannot be made or read, or another server has it.
    """

    def __init__(
        self,
        folder: Path,
        seal: Seal,
        *,
        max_bytes: int,
        max_entries: int = MAX_ENTRIES,
        owner_share: float = 1.0,
        alone: bool = False,
        max_ttl_s: float = inf,
        clock: Callable[[], float] = time.time,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """What is there and would be kept for longer than `max_ttl_s` from now is deleted: its time was longer then, or
        the clock has been set back.

        `on_failure` hears of each call that the disk failed; it must be quick, and call nothing here."""
        self._folder = folder
        self._on_failure = on_failure
        self._seal = seal
        self._max_bytes = max_bytes
        self._books = ExpiringBooks(max_entries, max_bytes, owner_share)
        self._max_ttl_s = max_ttl_s
        self._clock = clock
        self._lock = Lock()
        self._damaged = self._failures = 0
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        self._let_go = finalize(self, os.close, _claim(folder)) if alone else None
        self._take_stock()
        self._damaged_before = self._damaged

    def get(self, key: CacheKey) -> Blob | None:
        """The blob, which counts as used now."""
        now = self._clock()
        with self._lock:
            if not self._books.get(key, now):
                return None
        sealed = self._read(key)
        if sealed is None or sealed.expires_ms <= now * 1000:
            return None
        with suppress(OSError):
            os.utime(self._path(key), (now, now))
        return Blob(sealed.data, sealed.owner, sealed.expires_ms / 1000 - now)

    def put(self, owner: Owner, key: CacheKey, data: bytes, ttl_s: float) -> bool:
        """Keeps it for `ttl_s`; False when it is larger than the owner's share, or cannot be written."""
        if not _KEY.match(key):
            raise ValueError("a cache key is 64 hexadecimal digits")
        now = self._clock()
        expires_ms = int((now + ttl_s) * 1000)
        stored = self._seal.close(key, Sealed(data, owner, expires_ms))
        if ttl_s <= 0 or len(stored) > self._max_bytes:
            return False
        new: str | None = None
        try:
            new = self._write(key, stored, now)
            with self._lock:
                return self._place(new, key, len(stored), owner, expires_ms / 1000, now)
        except OSError:
            with self._lock:
                self._fail()
            return False
        finally:
            if new is not None:
                with suppress(OSError):
                    os.unlink(new)

    def remove(self, key: CacheKey) -> bool:
        """Forgets one blob; False when it is not there. Raises CacheUnavailable when its file cannot be deleted."""
        with self._lock:
            return self._delete([key]) == 1

    def purge(self, owner: Owner | None = None) -> int:
        """Forgets all blobs of an owner, or of everyone; raises CacheUnavailable when a file cannot be deleted, after
        all others are gone."""
        with self._lock:
            return self._delete(self._books.keys(owner))

    def usage(self) -> Usage:
        """What it holds: files and their bytes."""
        with self._lock:
            self._sweep(self._clock())
            return Usage(len(self._books), self._books.size_bytes, self._damaged, self._failures)

    def sweep(self) -> None:
        """Deletes the files of what has ended; one that cannot be deleted is counted as a failure."""
        with self._lock:
            self._sweep(self._clock())

    def verify(self) -> Verified:
        """Reads all files again and removes the damaged, those that were found at the opening included.

        Raises CacheUnavailable when one cannot be read, after all others are verified.
        """
        with self._lock:
            self._sweep(self._clock())
            keys, damaged, failures = self._books.keys(), self._damaged, self._failures
            opening, self._damaged_before = self._damaged_before, 0
        for key in keys:
            self._read(key)
        if self._failures > failures:
            raise CacheUnavailable("a file of the cache cannot be read")
        return Verified(len(keys) + opening, self._damaged - damaged + opening)

    def close(self) -> None:
        """Lets others have the folder."""
        if self._let_go is not None:
            self._let_go()

    def check_integrity(self) -> None:
        """The books' equation; the folder's files are those of the books, with the sizes that they have there."""
        with self._lock:
            self._books.check_integrity()
            sizes = {path.name: path.stat().st_size for path in self._folder.iterdir() if _KEY.match(path.name)}
            ensure(set(self._books.keys()) == sizes.keys(), "files == in the books")
            ensure(sum(sizes.values()) == self._books.size_bytes, "bytes of files == bytes in the books")

    def _path(self, key: CacheKey) -> Path:
        return self._folder / key

    def _write(self, key: CacheKey, stored: bytes, now: float) -> str:
        """A whole new file, which only its owner may read."""
        descriptor, new = tempfile.mkstemp(prefix=f"new-{key}-", dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(stored)
            os.utime(new, (now, now))
        except OSError:
            os.unlink(new)
            raise
        return new

    def _place(self, new: str, key: CacheKey, size_bytes: int, owner: Owner, expires_s: float, now: float) -> bool:
        self._sweep(now)
        evicted = self._books.put(key, size_bytes, owner, expires_s)
        if evicted is None:
            return False
        self._unlink(evicted)
        try:
            os.replace(new, self._path(key))
        except OSError:
            self._books.remove(key)
            self._unlink([key])
            raise
        return True

    def _read(self, key: CacheKey) -> Sealed | None:
        """A held blob. One whose file is gone is forgotten; one that does not verify is removed and counted."""
        try:
            with open_regular(self._path(key)) as file:
                stored = file.read()
        except FileNotFoundError:
            with self._lock:
                if not self._path(key).exists():
                    self._books.remove(key)
            return None
        except OSError:
            with self._lock:
                self._fail()
            return None
        sealed = self._seal.open(key, stored)
        if sealed is None:
            with self._lock:
                self._damaged += 1
                self._books.remove(key)
                self._unlink([key])
        return sealed

    def _sweep(self, now: float) -> None:
        self._unlink(self._books.expired(now))

    def _unlink(self, keys: list[CacheKey]) -> None:
        """Deletes files of which the books know no more."""
        for key in keys:
            try:
                self._path(key).unlink(missing_ok=True)
            except OSError:
                self._fail()

    def _delete(self, keys: list[CacheKey]) -> int:
        """Deletes held blobs because someone wants them gone: how many there were, or CacheUnavailable."""
        gone, failures = 0, self._failures
        for key in keys:
            if key in self._books:
                try:
                    self._path(key).unlink(missing_ok=True)
                except OSError:
                    self._fail()
                else:
                    gone += self._books.remove(key)
        if self._failures > failures:
            raise CacheUnavailable("a file of the cache cannot be deleted")
        return gone

    def _fail(self) -> None:
        self._failures += 1
        self._on_failure()

    def _take_stock(self) -> None:
        """Fills the books from the folder, oldest use first; deletes what has ended, is cut, or was never finished."""
        now = self._clock()
        files: list[_File] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    continue
                if _NEW.match(entry.name):  # its writer was killed; one that lives does not keep its blob then
                    Path(entry.path).unlink(missing_ok=True)
                elif _KEY.match(entry.name):
                    file = self._look(entry)
                    if file is not None and now < file.expires_s <= now + self._max_ttl_s:
                        files.append(file)
                    else:
                        self._unlink([CacheKey(entry.name)])
        for file in sorted(files, key=lambda file: file.used_s):
            evicted = self._books.put(file.key, file.size_bytes, file.owner, file.expires_s)
            self._unlink([file.key] if evicted is None else evicted)

    def _look(self, entry: os.DirEntry[str]) -> _File | None:
        try:
            with open(entry.path, "rb") as stored:
                told = self._seal.peek(stored.read(SEAL_HEADER_BYTES))
                stat = os.fstat(stored.fileno())
        except FileNotFoundError:
            return None
        if told is None:
            self._damaged += 1
            return None
        owner, expires_ms = told
        return _File(CacheKey(entry.name), stat.st_mtime, stat.st_size, owner, expires_ms / 1000)


def _claim(folder: Path) -> int:
    """A descriptor that keeps every other server out of the folder while it is open; however this one ends, it closes.

    Raises BlockingIOError where another has one.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise BlockingIOError(errno.EWOULDBLOCK, _IN_USE) from None
    except OSError:
        pass  # a file system without locks: nobody is kept out of it
    return descriptor
