#!/bin/sh
# One of the checks beyond `make test`: builds everything that a preset has, without a warning, and passes its tests.
# usage: scripts/check.sh clang|asan|tsan; aarch64 and armhf go by way of scripts/cross.sh
set -eu
cd "$(dirname "$0")/.."
build=build/$1
mkdir -p "$build"
if ! { cmake --preset "$1" && cmake --build "$build" -- -k 0; } >"$build/build.log" 2>&1; then
  tail -n 150 "$build/build.log"
  echo "check: $1 does not build ($build/build.log)"
  exit 1
fi
ctest --test-dir "$build" --output-on-failure --timeout 600 --no-tests=error --parallel "$(nproc)"
