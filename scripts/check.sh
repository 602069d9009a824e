#!/bin/sh
# One of the checks beyond `make test`: clang (builds without a warning), asan, tsan (build and test).
# usage: scripts/check.sh clang|asan|tsan
set -eu
cd "$(dirname "$0")/.."
cmake --preset "$1" >/dev/null
cmake --build "build/$1"
[ "$1" = clang ] || ctest --test-dir "build/$1" --output-on-failure --timeout 300
