#!/bin/sh
# Each file compiles by itself. usage: compiles_alone.sh headers|bare REPOSITORY CXX [CC]
#   headers   every public header, in an otherwise empty file; C headers in a C file too. Not those in adapters
#             folders, which stand on another project's headers, nor those that a source of the core library includes
#             first, which the build has compiled so. And that nobody is warned who names some fields of a struct.
#   bare      scratch and device without exceptions and run-time types, each folder as one; the test
#             `amalgamated` compiles the rest of floors 0 to 2 so
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
    # The presets compile the other floors' sources eight at a time.
    first=$(find src -mindepth 1 \( -name model -o -name op -o -name python -o -name tool \) -prune -o \
      -name '*.cpp' -exec grep -m1 -h '^#include' {} \; |
      sed 's/#include "\(.*\)"/include\/\1/')
    find include -name adapters -prune -o \( -name '*.hpp' -o -name '*.h' \) -print | grep -vxF "$first" | each sh -c '
      echo "#include \"${0#include/}\"" | $cxx -std=c++20 $warn -Iinclude -fsyntax-only -x c++ - || exit 255'
    find include -name adapters -prune -o -name '*.h' -print | each sh -c '
      echo "#include \"${0#include/}\"" | $cc -std=c99 $warn -Iinclude -fsyntax-only -x c - || exit 255'
    $cxx -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Werror -Iinclude -fsyntax-only tests/named_fields.cpp
    ;;
  bare)
    without=""
    echo '#include <CL/cl.h>' | "$cxx" -E -x c++ - >/dev/null 2>&1 || without=src/device/opencl
    # What a source's types hold of its unnamed namespace, g++ allows in the file that it is given only.
    export cxx without
    find src/scratch src/device -type d ! -path "$without" | each sh -c '
      ls "$0"/*.cpp >/dev/null 2>&1 || exit 0
      ls "$0"/*.cpp | sed "s/.*/#include \"..\/&\"/" |
        $cxx -std=c++20 -fno-exceptions -fno-rtti -Wall -Wextra -Wno-missing-field-initializers -Werror \
          -Wno-unknown-warning-option -Wno-subobject-linkage -Iinclude -Isrc -fsyntax-only -x c++ - || exit 255'
    ;;
esac
