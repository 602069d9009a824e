#!/bin/sh
# The core configures where nothing else is to be had: every package that CMake could look for is hidden from it.
# usage: core.sh CMAKE REPOSITORY FOLDER CXX CC
set -eu
hidden=""
for package in ZLIB nlohmann_json dnnl ONNX Protobuf Python3 pybind11 CLI11 GTest rapidcheck OpenCL; do
  hidden="$hidden -DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"
done
rm -rf "$3"
"$1" --no-warn-unused-cli --preset core -S "$2" -B "$3" -DCMAKE_CXX_COMPILER="$4" -DCMAKE_C_COMPILER="$5" $hidden >/dev/null
