#!/bin/sh
# Makes the Debian package and looks at what is in it. usage: package.sh CMAKE BUILD_FOLDER
# Exit status 77: Debian's tools for packages are not here.
set -eu
command -v dpkg-shlibdeps >/dev/null || exit 77
place=$2/package_test
rm -rf "$place"
mkdir -p "$place"
cd "$place"
"$(dirname "$1")/cpack" --config "$2/CPackConfig.cmake" -B "$place" >cpack.log || { cat cpack.log; exit 1; }
dpkg-deb -c ./*.deb >contents
for file in include/berth/berth.hpp lib/cmake/berth/berthConfig.cmake lib/pkgconfig/berth.pc share/doc/berth/LICENSE; do
  grep -q " ./usr/$file\$" contents || { echo "package: usr/$file is not in it"; exit 1; }
done
grep ' ./' contents | grep -v ' ./\(usr/.*\)\?$' && { echo "package: something lies outside of usr"; exit 1; }
dpkg-deb -f ./*.deb Package Version Depends
