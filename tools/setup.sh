#!/bin/sh
# Makes the virtual environment, and installs the Debian packages that cannot come from PyPI. Works as root and with sudo.
#   setup.sh venv PYTHON FOLDER EXTRAS     setup.sh test-packages
set -eu

apt_install() {
    if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo"; fi
    echo "installing Debian packages: $*"
    export DEBIAN_FRONTEND=noninteractive
    $as_root apt-get update -qq
    $as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

case "$1" in
venv)
    python="$2"; folder="$3"; extras="$4"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "Python 3.11 or newer is needed; name one by: make PYTHON=python3.11" >&2; exit 1; }
    # Debian ships venv apart from Python.
    "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
    echo "installing StreamScribe into $folder, with $extras: fetches up to some hundred MB, takes some minutes, in silence"
    [ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
    # What is imported is compiled when it first is: all that PyTorch brings takes a minute.
    "$folder/bin/python" -m pip install --no-compile --quiet --disable-pip-version-check --editable ".[$extras]"
    ;;
test-packages)
    command -v chromium >/dev/null 2>&1 || apt_install chromium fonts-noto-cjk
    command -v redis-server >/dev/null 2>&1 || apt_install redis-server
    ;;
*)
    echo "usage: setup.sh venv PYTHON FOLDER EXTRAS | test-packages" >&2; exit 2
    ;;
esac
