"""What the machine must have: a Docker engine, debootstrap, iptables, ip. Debian's packages, installed when they are missing.

No service is started by the installation: the tests start their own engines, and whoever has no Docker does not get one that
runs.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.swarm.shell import CommandError, run

NEEDED = {"dockerd": "docker.io", "debootstrap": "debootstrap", "iptables": "iptables", "ip": "iproute2"}
POLICY = Path("/usr/sbin/policy-rc.d")  # Debian asks it before it starts a service; 101 is "no"
CLIENT = "/usr/bin/docker"


def missing() -> list[str]:
    """The packages that have to be installed."""
    return [package for program, package in NEEDED.items() if shutil.which(program) is None]


def install() -> list[str]:
    """Install what is missing; returns it. Raises PermissionError without root, RuntimeError where there is no apt."""
    if os.geteuid() != 0:
        raise PermissionError("the Swarm tests need root: they start Docker engines in network namespaces of their own")
    absent = missing()
    if not absent:
        return []
    if shutil.which("apt-get") is None:
        raise RuntimeError(f"the Swarm tests need {', '.join(absent)}, and there is no apt-get to install them")
    ours = not POLICY.exists()
    if ours:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        words = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", *absent)
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            run(*words, env=quiet, timeout=600)
        except CommandError:
            run("apt-get", "update", "-qq", timeout=300)
            run(*words, env=quiet, timeout=600)
    finally:
        if ours:
            POLICY.unlink()
    return absent


def client() -> str:
    """The command line client: Debian's, which came with the engine, before any other."""
    return CLIENT if Path(CLIENT).exists() else "docker"
