#!/bin/sh
# Each file compiles by itself. usage: compiles_alone.sh headers|bare REPOSITORY CXX [CC]
#   headers   every public header, in an otherwise empty file; C headers in a C file too. Not those in adapters
#             folders, which stand on another project's headers.
#   bare      the sources of floors 0 to 2 without exceptions and run-time types
set -eu
what=$1
cxx=$3
cc=${4:-cc}
cd "$2"

each() { xargs -P "$(nproc)" -n 1 "$@"; }

case $what in
  headers)
    warn="-Wall -Wextra -Wpedantic -Wshadow -Werror -Wno-missing-field-initializers"
    export cxx cc warn
    find include -name adapters -prune -o \( -name '*.hpp' -o -name '*.h' \) -print | each sh -c '
      echo "#include \"${0#include/}\"" | $cxx -std=c++20 $warn -Iinclude -fsyntax-only -x c++ - || exit 255'
    find include -name adapters -prune -o -name '*.h' -print | each sh -c '
      echo "#include \"${0#include/}\"" | $cc -std=c99 $warn -Iinclude -fsyntax-only -x c - || exit 255'
    ;;
  bare)
    without=""
    echo '#include <CL/cl.h>' | "$cxx" -E -x c++ - >/dev/null 2>&1 || without=src/device/opencl
    find src/core src/rules src/scratch src/plan src/device -name '*.cpp' ! -path "$without/*" |
      each "$cxx" -std=c++20 -fno-exceptions -fno-rtti -Wall -Wextra -Wno-missing-field-initializers -Werror \
        -Iinclude -Isrc -fsyntax-only
    ;;
esac
