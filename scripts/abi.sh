#!/bin/sh
# Compares the C interface of the shared core library with that of a tag, by default the last release. Prints each
# function and type that changed or is missing. A function that is new is no change.
# usage: scripts/abi.sh [TAG]
# Exit status: 0 unchanged, 1 changed, 2 a library was not built, 77 nothing was compared.
set -eu
cd "$(dirname "$0")/.."
command -v abidiff >/dev/null || { echo "abi: not compared: abidiff is missing (Debian's package abigail-tools)"; exit 77; }
tag=${1-$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)}
[ -n "$tag" ] || { echo "abi: not compared: there is no release yet"; exit 77; }
build=$PWD/build/abi
rm -rf "$build"
mkdir -p "$build/source"
git archive -o "$build/source.tar" "$tag" || exit 2
tar -xf "$build/source.tar" -C "$build/source"

# abidiff needs debugging information. Optimised code would only take longer to compile.
library() { # source, name
  if ! { cmake --preset core -S "$1" -B "$build/$2" -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=Debug &&
    cmake --build "$build/$2" --target berth; } >"$build/$2.log" 2>&1; then
    tail -n 50 "$build/$2.log"
    echo "abi: $1 does not build"
    exit 2
  fi
}
library "$build/source" old
library "$PWD" new

# The C++ interface may change in a minor version. A type that no public header defines is opaque to callers.
printf '[suppress_%s]\nsymbol_name_not_regexp = ^berth_\n' function variable >"$build/not_in_c"
status=0
abidiff --suppressions "$build/not_in_c" --no-added-syms --drop-private-types \
  --headers-dir1 "$build/source/include" --headers-dir2 "$PWD/include" "$build/old/libberth.so" "$build/new/libberth.so" ||
  status=$?
case $status in
  0) echo "abi: unchanged since $tag" ;;
  1 | 2 | 3) exit 2 ;;
  *) echo "abi: changed since $tag"; exit 1 ;;
esac
