#!/bin/sh
# Makes the Debian packages and looks at their contents. usage: package.sh CMAKE BUILD_FOLDER
# Exit status 77: Debian's tools for packages are not here.
set -eu
command -v dpkg-shlibdeps >/dev/null || exit 77
place=$2/package_test
rm -rf "$place"
mkdir -p "$place"
cd "$place"
"$(dirname "$1")/cpack" --config "$2/CPackConfig.cmake" -B "$place" >cpack.log || { cat cpack.log; exit 1; }

has() { # package, files below usr
  package=$1
  shift
  dpkg-deb -c "$package"_[0-9]*.deb >"$package.contents"
  for file in "$@" "share/doc/$package/copyright"; do
    grep -q " ./usr/$file\( -> .*\)\?\$" "$package.contents" || { echo "package: usr/$file is not in $package"; exit 1; }
  done
  if grep ' ./' "$package.contents" | grep -v ' ./\(usr/.*\)\?$'; then echo "package: $package has files outside of usr"; exit 1; fi
  dpkg-deb -f "$package"_[0-9]*.deb Package Version Depends Recommends
}

expected=1
has libberth-dev include/berth/berth.hpp '.*/cmake/berth/berthConfig.cmake' '.*/pkgconfig/berth.pc' share/doc/berth/LICENSE
if [ -e "$2/bin/berth" ]; then
  expected=$((expected + 1))
  has berth bin/berth share/man/man1/berth.1
fi
if [ -n "$(find "$2" -path "*/lib*/berth/berth_onednn.so" -print -quit)" ]; then
  expected=$((expected + 1))
  has berth-onednn 'lib/.*berth/berth_onednn.so'
  dpkg-deb -f berth_[0-9]*.deb Depends | grep -q dnnl && { echo "package: berth needs oneDNN"; exit 1; }
fi
if [ -d "$2/python/berth" ]; then
  expected=$((expected + 1))
  has python3-berth 'lib/python3.*/dist-packages/berth/__init__.py'
  dpkg-deb -f python3-berth_*.deb Depends | grep -q 'python3 (<< 3' || { echo "package: any Python would do"; exit 1; }
fi
if [ -e "$2/libberth.so" ]; then
  expected=$((expected + 1))
  so=$(basename "$(readlink -f "$2/libberth.so")")
  name=libberth${so#libberth.so.}
  has "${name%.*}" "lib.*/$so"
  for package in libberth-dev berth; do
    dpkg-deb -f "$package"_[0-9]*.deb Depends | grep -q "${name%.*} (=" || { echo "package: $package needs no $name"; exit 1; }
  done
fi
[ "$(ls ./*.deb | wc -l)" -eq "$expected" ] || { echo "package: not $expected packages:" ./*.deb; exit 1; }
# No file is in two packages.
awk '!/\/$/ { print $6 }' ./*.contents | sort | uniq -d | grep . && { echo "package: files are in two packages"; exit 1; }
exit 0
