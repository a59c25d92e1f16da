"""Prints the runtime dependencies of pyproject.toml, one a line: the image's layer of them does not change with our code."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
sys.stdout.write("\n".join(project["dependencies"]) + "\n")
