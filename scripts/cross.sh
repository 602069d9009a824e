#!/bin/sh
# Builds Berth for another machine (aarch64 or armhf) and runs its tests under qemu-user. usage: scripts/cross.sh ARCH
set -eu
cd "$(dirname "$0")/.."

case "${1:-}" in
  aarch64) debian=arm64 ;;
  armhf) debian=armhf ;;
  *) echo "usage: scripts/cross.sh aarch64|armhf" >&2; exit 2 ;;
esac
scripts/setup.sh cross

# The libraries of the tests, as Debian builds them for the target: unpacked into the build folder, not installed.
root=$PWD/build/$1/target
if [ ! -d "$root/usr" ]; then
  apt=$PWD/build/$1/apt
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$root.new"
  : >"$apt/status"
  foreign() {
    apt-get -qq -o APT::Architecture=$debian -o APT::Architectures=$debian -o APT::Sandbox::User="" \
      -o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" "$@"
  }
  foreign update || echo "cross: some package lists are not to be had for $debian; going on with the others"
  if ! (cd "$apt" && foreign download libgtest-dev libgmock-dev librapidcheck-dev zlib1g-dev nlohmann-json3-dev); then
    echo "cross: Debian's libraries for $debian cannot be downloaded"
    exit 1
  fi
  for file in "$apt"/*.deb; do dpkg -x "$file" "$root.new"; done
  mv "$root.new" "$root"
fi

scripts/check.sh "$1"
