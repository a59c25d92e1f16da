#!/bin/sh
# What the tests need beside Python packages: a Redis server. Root gets it installed; others are told, and those tests are left
# out by name. Prints the environment for the test run.
if ! command -v redis-server >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    { apt-get install -y -qq redis-server || { apt-get update -qq && apt-get install -y -qq redis-server; }; } >/dev/null 2>&1
fi
if ! command -v redis-server >/dev/null 2>&1; then
    echo "redis-server is not installed: the tests of the Redis store are left out (apt-get install redis-server)" >&2
    echo "AUTOHEDGE_TESTS_WITHOUT_REDIS=1"
fi
