#!/bin/sh
# Builds Berth for another machine (aarch64 or armhf) and runs its tests under qemu-user. usage: scripts/cross.sh ARCH
set -eu
cd "$(dirname "$0")/.."

case "${1:-}" in
  aarch64) debian=arm64 compiler=g++-aarch64-linux-gnu ;;
  armhf) debian=armhf compiler=g++-arm-linux-gnueabihf ;;
  *) echo "usage: scripts/cross.sh aarch64|armhf" >&2; exit 2 ;;
esac
build=build/$1

as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
for package in $compiler qemu-user cmake ninja-build; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' && continue
  $as_root apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y --no-install-recommends $compiler qemu-user cmake ninja-build
  break
done

# The libraries of the tests, as Debian builds them for the target: unpacked into the build folder, not installed.
root=$PWD/$build/target
if [ ! -d "$root/usr" ]; then
  apt=$PWD/$build/apt
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  : >"$apt/status"
  foreign() {
    apt-get -qq -o APT::Architecture=$debian -o APT::Architectures=$debian -o APT::Sandbox::User="" \
      -o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" "$@"
  }
  foreign update || echo "some package lists are not to be had for $debian; going on with the others" >&2
  (cd "$apt" && foreign download libgtest-dev libgmock-dev librapidcheck-dev zlib1g-dev nlohmann-json3-dev)
  mkdir -p "$root.new"
  for file in "$apt"/*.deb; do dpkg -x "$file" "$root.new"; done
  mv "$root.new" "$root"
fi

cmake --preset "$1"
cmake --build "$build"
ctest --test-dir "$build" --output-on-failure
