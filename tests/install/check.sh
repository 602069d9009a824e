#!/bin/sh
# Installs Berth into a fresh folder and builds an outside project against it, by find_package and by pkg-config.
# usage: check.sh CMAKE BUILD_FOLDER CXX
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cmake=$1
build=$2
cxx=$3
place=$build/install_test
rm -rf "$place"
mkdir -p "$place"

"$cmake" --install "$build" --prefix "$place/prefix" >/dev/null
"$cmake" -S "$here" -B "$place/outside" -DCMAKE_PREFIX_PATH="$place/prefix" -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
"$cmake" --build "$place/outside" >/dev/null
"$place/outside/outside"

# The package has moved by then: nothing in it may name where it was installed.
mv "$place/prefix" "$place/moved"
PKG_CONFIG_PATH=$(dirname "$(find "$place/moved" -name berth.pc)")
export PKG_CONFIG_PATH
$cxx "$here/main.cpp" $(pkg-config --cflags --static --libs berth) -o "$place/by_pkg_config"
"$place/by_pkg_config"
