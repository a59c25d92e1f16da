"""The images of the tests. No registry is asked for any: a closed network has none.

- `python:3.11-slim` is made here: Debian with its Python, debootstrapped once and kept as an archive. It carries the machine's
  CA bundle and pip's settings, so that the project's Dockerfile is built as it is, with nothing added for the tests.
- The project's own image comes from its own Dockerfile, in the folder as it lies there.
- `valkey/valkey:8` is Debian's Redis under Valkey's names: the same protocol, the same options, as far as the stack uses them.
- The engine's image is the llama.cpp wheel under the project's program, last: only that is copied anew when our code changes. It
  takes llama-server's own words.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.swarm.node import Node
from tests.swarm.shell import CommandError, run

ROOT = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
PACKAGES = ("python3", "python3-pip", "python3-venv", "ca-certificates")
HEADERS = "libpython3.11-dev"  # of this package the headers alone: the official image has them too, and no compiler
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
MARK = "autohedge.tests.recipe"  # the label by which an image tells what it was made of

BASE = "python:3.11-slim"
PROJECT = "autohedge:test"
VALKEY = "valkey/valkey:8"
ENGINE = "autohedge-engine:test"

# What the slim image leaves out is left out here too.
USELESS: tuple[str, ...] = (
    "var/cache/apt/archives/*.deb",
    "var/cache/apt/*.bin",
    "var/lib/apt/lists/*",
    "usr/share/doc/*",
)
USELESS += (
    "usr/share/man/*",
    "usr/share/locale/*",
    "usr/share/info/*",
    "var/log/*.log",
    "usr/lib/python3*/EXTERNALLY-MANAGED",
)
HEADERS_OF = f"""
cd /tmp; apt-get update -qq; apt-get download -qq {HEADERS}
dpkg-deb --fsys-tarfile {HEADERS}_*.deb | tar -x -C / ./usr/include; rm {HEADERS}_*.deb
"""

VALKEY_FILE = f"""
FROM {BASE}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN for one in server cli benchmark; do ln -sf /usr/bin/redis-$one /usr/local/bin/valkey-$one; done \\
    && printf '#!/bin/sh\\nset -e\\ncase "$1" in -*|*.conf) set -- valkey-server "$@";; esac\\nexec "$@"\\n' \\
        >/usr/local/bin/docker-entrypoint.sh \\
    && chmod +x /usr/local/bin/docker-entrypoint.sh && mkdir -p /data && chown redis:redis /data
USER redis
VOLUME /data
WORKDIR /data
EXPOSE 6379
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["valkey-server"]
"""

# The real engine under its own program's words: `--model`, `--ctx-size` and the like are llama-server's.
LLAMA = """
import sys
from autohedge.demo.llama_server import main
OURS = {"--ctx-size": "--window", "--parallel": "--slots"}
words = [OURS.get(word, word) for word in sys.argv[1:]]
at = words.index("--model")
raise SystemExit(main([words[at + 1], *words[:at], *words[at + 2:]]))
"""

ENGINE_FILE = f"""
FROM {BASE}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends curl libgomp1 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN python -m pip install --quiet --target /opt/llama {{wheels}}
ENV PATH=/opt/autohedge/bin:$PATH PYTHONPATH=/opt/llama PYTHONUNBUFFERED=1
COPY llama.py /llama.py
COPY --from={PROJECT} /opt/autohedge /opt/autohedge
ENTRYPOINT ["python", "/llama.py"]
CMD []
HEALTHCHECK NONE
"""


def base(node: Node, cache: Path) -> None:
    """Make sure that the node has the base image."""
    recipe = _digest(" ".join((SUITE, *PACKAGES, HEADERS, *USELESS)), pip_settings(), CERTIFICATES.read_text())
    if recipe_of(node, BASE) == recipe:
        return
    archive = cache / f"base-{SUITE}-{recipe}.tar"
    if not archive.exists():
        for old in cache.glob("base-*.tar"):
            old.unlink()
        _bootstrap(archive)
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    changes = (f"ENV {path}", "ENV LANG=C.UTF-8", f"ENV SSL_CERT_FILE={CERTIFICATES}", f"LABEL {MARK}={recipe}")
    words = [word for change in (*changes, 'CMD ["python3"]') for word in ("--change", change)]
    node.docker("import", *words, str(archive), BASE)


def project(node: Node) -> None:
    """The image that the project's Dockerfile makes of the folder as it is."""
    build(node, PROJECT, ROOT)


def valkey(node: Node) -> None:
    """The store of the stack."""
    _small(node, VALKEY, VALKEY_FILE)


def engine(node: Node) -> None:
    """Real llama.cpp. The sample engine needs no image but the project's."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["demo"]
    recipe = ENGINE_FILE.format(wheels=" ".join(f"'{wheel}'" for wheel in extra))
    _small(node, ENGINE, recipe, {"llama.py": LLAMA})


def build(node: Node, tag: str, context: Path) -> None:
    """`docker build`; what has not changed comes from the engine's cache."""
    node.docker("build", "--quiet", "--tag", tag, str(context), timeout=600)


def spread(node: Node, others: list[Node], *tags: str) -> None:
    """Bring images to nodes that have not exactly these: a node does not ask its neighbours."""
    wanted = {tag: image_id(node, tag) for tag in tags}
    lacking = {other: [tag for tag in tags if image_id(other, tag) != wanted[tag]] for other in others}
    moved = sorted({tag for absent in lacking.values() for tag in absent})
    if not moved:
        return
    with tempfile.TemporaryDirectory(dir=node.live) as folder:
        archive = Path(folder) / "images.tar"
        node.docker("save", "--output", str(archive), *moved, timeout=300)
        for other, absent in lacking.items():
            if absent:
                other.docker("load", "--quiet", "--input", str(archive), timeout=300)


def image_id(node: Node, tag: str) -> str:
    """An image's id; "" when the node has none of that name."""
    try:
        return node.docker("image", "inspect", "--format", "{{.Id}}", tag)
    except CommandError:
        return ""


def recipe_of(node: Node, tag: str) -> str:
    """What an image of ours was made of; "" for none."""
    try:
        return node.docker("image", "inspect", "--format", f'{{{{index .Config.Labels "{MARK}"}}}}', tag)
    except CommandError:
        return ""


def _small(node: Node, tag: str, recipe: str, files: Mapping[str, str] | None = None) -> None:
    """Build from a Dockerfile and the files that it copies."""
    with tempfile.TemporaryDirectory(dir=node.live) as folder:
        for name, text in {"Dockerfile": recipe, **(files or {})}.items():
            (Path(folder) / name).write_text(text)
        build(node, tag, Path(folder))


def _bootstrap(archive: Path) -> None:
    """Debian and Python as the official image would have them. In memory where there is room: fewer waits for the disk."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2 << 30
    # a place where device files work: /dev/shm may forbid them, so it is mounted anew for this process alone
    with tempfile.TemporaryDirectory(dir=archive.parent) as made:
        root = Path(made) / "root"
        root.mkdir()
        half = archive.with_suffix(".part")
        said = f"|| {{ tail -5 {made}/log >&2; exit 1; }}"
        steps = [f"mount -t tmpfs -o mode=755 bootstrap {root}"] if roomy else []
        steps += [
            f"debootstrap --variant=minbase --include={','.join(PACKAGES)} {SUITE} {root} >{made}/log 2>&1 {said}",
            f"chroot {root} sh -ec '{HEADERS_OF}' >>{made}/log 2>&1 {said}",
            f"cd {root}; rm -rf {' '.join(USELESS)}; ln -sf python3 usr/bin/python",
            f"cp {made}/pip.conf {root}/etc/pip.conf; cp {CERTIFICATES} {root}{CERTIFICATES}",
            f"tar --numeric-owner --exclude=./dev/* --exclude=./proc/* --exclude=./sys/* -cf {half} .",
        ]
        (Path(made) / "pip.conf").write_text(pip_settings())
        run("unshare", "--mount", "--propagation", "private", "bash", "-ec", "\n".join(steps), timeout=600)
        half.rename(archive)


def pip_settings() -> str:
    """pip.conf for the images: where this machine takes packages from, as far as it is an address and no folder."""
    told = {"cert": str(CERTIFICATES), "disable-pip-version-check": "true", "root-user-action": "ignore"}
    told["default-timeout"] = "60"
    for key in ("index-url", "extra-index-url", "proxy", "trusted-host"):
        value = os.environ.get(f"PIP_{key.replace('-', '_').upper()}") or _pip_value(key)
        if value and "file:" not in value:
            told[key] = " ".join(value.split())
    return "[global]\n" + "".join(f"{key} = {value}\n" for key, value in told.items())


def _pip_value(key: str) -> str:
    try:
        return run(sys.executable, "-m", "pip", "config", "get", f"global.{key}")
    except CommandError:
        return ""


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
