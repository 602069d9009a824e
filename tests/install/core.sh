#!/bin/sh
# The core configures where nothing else is to be had: every package that CMake could look for is hidden from it. It
# does inside another project too, whose targets and package have the names they would have without it.
# usage: core.sh CMAKE REPOSITORY FOLDER CXX CC
set -eu
hidden=""
for package in ZLIB nlohmann_json dnnl Python3 pybind11 CLI11 GTest rapidcheck OpenCL; do
  hidden="$hidden -DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"
done
rm -rf "$3" "$3_inside"
"$1" --no-warn-unused-cli --preset core -S "$2" -B "$3" -DCMAKE_CXX_COMPILER="$4" -DCMAKE_C_COMPILER="$5" $hidden >/dev/null

mkdir "$3_inside"
cat >"$3_inside/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(outer VERSION 7.8.9)
add_subdirectory($2 berth)
add_custom_target(installed)
add_custom_target(reference)
include(CPack)
END
"$1" --no-warn-unused-cli -S "$3_inside" -B "$3_inside/build" -DCMAKE_CXX_COMPILER="$4" -DCMAKE_C_COMPILER="$5" $hidden \
  -DBERTH_MODEL=OFF -DBERTH_ONEDNN=OFF -DBERTH_OPENCL=OFF -DBERTH_TOOL=OFF \
  -DCMAKE_INSTALL_LIBDIR="$3_inside/lib" >/dev/null
grep -q '"7.8.9"' "$3_inside/build/CPackConfig.cmake" || { echo "core: the package is not the outer project's"; exit 1; }
grep -q "^libdir=$3_inside/lib\$" "$3_inside/build/berth/berth.pc" || { echo "core: wrong libdir in berth.pc"; exit 1; }
