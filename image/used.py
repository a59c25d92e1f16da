"""Imports every module that a command or a configuration of an installed AutoHedge may import, and prints the files of all that came.

The demo is left out: the image does not have its engine. Run in both stages: the first learns what bytecode to write, in the
second, as root, Python leaves that of the standard library, which the base image comes without.
"""

import importlib
import json
import pkgutil
import sys

import autohedge

for module in pkgutil.walk_packages(autohedge.__path__, "autohedge."):
    if not module.name.startswith(("autohedge.demo.", "autohedge.__main__")):
        importlib.import_module(module.name)
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
sys.stdout.write(json.dumps([file for file in files if file]) + "\n")
