#!/bin/sh
# Installs the Debian packages that are missing of those that Berth's build, tests and models need; with the word
# `checks` also those of the extra checks that CI runs, with `cross` those that build and run for other machines, with
# `models` the one that fetches models.
set -eu
packages="g++ cmake ninja-build make python3 pkg-config \
  libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev \
  libdnnl-dev ocl-icd-opencl-dev libonnx-dev libprotobuf-dev protobuf-compiler \
  nlohmann-json3-dev libcli11-dev libfmt-dev zlib1g-dev pocl-opencl-icd \
  python3-dev pybind11-dev"
case "${1:-}" in
  checks) packages="$packages clang clang-format libclang-rt-14-dev git" ;;
  cross) packages="$packages g++-aarch64-linux-gnu g++-arm-linux-gnueabihf qemu-user" ;;
  models) packages="$packages npm" ;;
esac

missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

echo "Installing:$missing"
as_root=""
if [ "$(id -u)" != 0 ]; then as_root=sudo; fi

# npm brings the package ca-certificates, which writes the certificate bundle anew: one that somebody put there by hand,
# to get through a proxy, would be lost, and with it the registry.
bundle=/etc/ssl/certs/ca-certificates.crt
kept=""
if [ -s "$bundle" ] && ! dpkg-query -W -f='${Status}' ca-certificates 2>/dev/null | grep -q 'ok installed'; then
  kept="$(mktemp)"
  cat "$bundle" >"$kept"
fi
$as_root apt-get update
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y --no-install-recommends $missing
if [ -n "$kept" ]; then
  $as_root cp "$kept" "$bundle"
  rm -f "$kept"
fi
