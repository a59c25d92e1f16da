"""A test cluster by hand, to look around in: `python -m tests.swarm up [MANAGERS [WORKERS]] | down`."""

from __future__ import annotations

import sys

from tests.swarm.cluster import Cluster
from tests.swarm.place import chosen


def main(words: list[str]) -> int:
    made = Cluster(chosen())
    if words[:1] == ["up"]:
        made.up(*(int(word) for word in words[1:3]))
        for node in made.nodes:
            print(f"{node.name}  {node.address}  docker -H unix://{node.socket}")
    elif words[:1] == ["down"]:
        made.down()
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
