#!/bin/sh
# Configures the core without any other package: each package that CMake could look for is hidden from it. Then embeds
# Berth in another project by add_subdirectory and by FetchContent. Their defaults give the core alone, and the outer
# project keeps its own target names and package.
# usage: core.sh CMAKE REPOSITORY FOLDER CXX CC
set -eu
cmake=$1
repository=$2
folder=$3
cxx=$4
cc=$5
hidden=""
for package in ZLIB nlohmann_json dnnl Python3 pybind11 CLI11 GTest rapidcheck OpenCL; do
  hidden="$hidden -DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"
done
rm -rf "$folder" "${folder}_inside"
"$cmake" --no-warn-unused-cli --preset core -S "$repository" -B "$folder" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" \
  $hidden >/dev/null

inside() { # name, the lines that embed Berth
  outer=${folder}_inside/$1
  mkdir -p "$outer"
  cat >"$outer/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(outer VERSION 7.8.9)
$2
add_executable(program program.cpp)
target_link_libraries(program PRIVATE berth::berth)
add_custom_target(installed)
add_custom_target(reference)
foreach(target berth_model berth_op berth_tool berth_python ascend_simulator)
  if(TARGET \${target})
    message(SEND_ERROR "core: \${target} is built inside another project")
  endif()
endforeach()
include(CPack)
END
  echo "int main() {}" >"$outer/program.cpp"
  "$cmake" --no-warn-unused-cli -S "$outer" -B "$outer/build" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_C_COMPILER="$cc" $hidden \
    -DCMAKE_INSTALL_LIBDIR="$outer/lib" >/dev/null
  grep -q '"7.8.9"' "$outer/build/CPackConfig.cmake" || { echo "core: the package is not the outer project's"; exit 1; }
  pc=$(find "$outer/build" -name berth.pc)
  grep -q "^libdir=$outer/lib\$" "$pc" || { echo "core: wrong libdir in berth.pc"; exit 1; }
}

inside subdirectory "add_subdirectory($repository berth)"
inside fetched "include(FetchContent)
FetchContent_Declare(berth SOURCE_DIR $repository)
FetchContent_MakeAvailable(berth)"
