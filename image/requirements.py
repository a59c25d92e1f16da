"""Prints requirements of pyproject.toml, one a line: the image's layers of them do not change with our code.

requirements.py [TOOL ...]          those of a running AutoHedge, or those that the extra `dev` has for these tools
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
tools = sys.argv[1:]
extra = [one for one in project["optional-dependencies"]["dev"] if re.match(r"[\w-]+", one)[0] in tools]
sys.stdout.write("\n".join(extra if tools else project["dependencies"]) + "\n")
