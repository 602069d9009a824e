#!/bin/sh
# Installs Berth into a fresh folder and uses it as its users do: outside projects by find_package (the core, then what
# stands on others) and by pkg-config, C programs that a C compiler links, and README's program and commands.
# usage: check.sh CMAKE BUILD_FOLDER CXX CC PYTHON
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cmake=$1
build=$2
cxx=$3
cc=$4
python=$5
warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror"
place=$build/install_test
rm -rf "$place"
mkdir -p "$place"

outside() { # name, components, another setting
  "$cmake" -S "$here" -B "$place/$1" -DCMAKE_PREFIX_PATH="$place/prefix" -DCMAKE_CXX_COMPILER="$cxx" \
    -DCOMPONENTS="$2" ${3:-} >/dev/null
  "$cmake" --build "$place/$1" >/dev/null
  "$place/$1/outside"
}

"$cmake" --install "$build" --prefix "$place/prefix" >/dev/null
test -f "$place/prefix/share/doc/berth/LICENSE"
outside core ""
if [ -d "$place/prefix/include/berth/model" ]; then outside files model; fi
# What an optional component needs is not there: it is missing, and nothing else.
outside without_files "OPTIONAL_COMPONENTS;model" -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON
# A project in C alone.
mkdir "$place/c_alone"
cat >"$place/c_alone/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(c_alone LANGUAGES C)
find_package(berth REQUIRED)
add_executable(c_alone $here/../../examples/07_plan.c)
target_link_libraries(c_alone PRIVATE berth::berth)
END
"$cmake" -S "$place/c_alone" -B "$place/c_alone/build" -DCMAKE_PREFIX_PATH="$place/prefix" -DCMAKE_C_COMPILER="$cc" >/dev/null
"$cmake" --build "$place/c_alone/build" >/dev/null
"$place/c_alone/build/c_alone"
package=$(find "$place/prefix" -name '__init__.py' -path '*python*/berth/*')
if [ -n "$package" ]; then PYTHONPATH=$(dirname "$(dirname "$package")") PYTHONDONTWRITEBYTECODE=1 "$python" -c 'import berth; print(berth.__version__)'; fi

# The package has moved by then: nothing in it may name where it was installed.
mv "$place/prefix" "$place/moved"
PKG_CONFIG_PATH=$(dirname "$(find "$place/moved" -name berth.pc)")
export PKG_CONFIG_PATH
flags="-std=c++20 $(pkg-config --cflags --libs berth)"
$cxx "$here/main.cpp" $flags -o "$place/by_pkg_config"
"$place/by_pkg_config"

# A program for AscendCL on the simulator, linked and with what it did wrong told by the exit status.
if pkg-config --exists ascend_simulator; then
  $cc -std=c99 $warnings "$here/ascend.c" $(pkg-config --cflags --libs ascend_simulator) -o "$place/ascend"
  "$place/ascend"
  status=0
  "$place/ascend" too_early 2>"$place/ascend_said" || status=$?
  [ "$status" -eq 99 ] && grep -q "early_free: aclrtFree" "$place/ascend_said"
fi

# A C program of scratch alone links without the C++ runtime.
$cc -std=c99 $warnings "$here/main.c" -I"$place/moved/include" "$(find "$place/moved" -name libberth.a -o -name libberth.so)" \
  -pthread -o "$place/in_c"
for program in "$here/main.c" "$here/../../examples/07_plan.c"; do
  $cc -std=c99 $warnings "$program" $(pkg-config --cflags --libs berth) -o "$place/in_c"
  "$place/in_c"
done

# README's program, and README's commands as printed.
awk '/^```cpp$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$here/../../README.md" >"$place/plan.cpp"
cp "$here/../../examples/08_operator.c" "$place/operator.c"
grep '^c[+c]* .*pkg-config' "$here/../../README.md" | sed "s|^c++ |$cxx $warnings |; s|^cc |$cc $warnings |" >"$place/commands"
test "$(wc -l <"$place/commands")" -eq 2
if ! pkg-config --exists berth-op; then sed -i /berth-op/d "$place/commands"; fi
(cd "$place" && sh -e ./commands)
"$place/plan"
if [ -e "$place/operator" ]; then "$place/operator"; fi
