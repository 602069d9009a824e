#!/bin/sh
# Installs the missing Debian packages that building Berth's tool needs. A word adds others:
#   run      oneDNN, whose kernels run models faster than Berth's own
#   python   the same, and packages for the Python module
#   tests    the same, and packages for the tests
#   checks   packages for CI's further checks
#   cross    packages to build and run for other machines
#   models   packages to fetch models
#   docs     packages for the API reference
#   deb      packages to make Debian packages, oneDNN's and Python's too
#   browser  the browser that also tests the page of `berth view`
#   viewer   packages to make the page that reads files in the browser
set -eu
packages="g++ cmake ninja-build make nlohmann-json3-dev libcli11-dev zlib1g-dev"
run="libdnnl-dev ocl-icd-opencl-dev"
python="$run python3-dev pybind11-dev"
case "${1:-}" in
  run) packages="$packages $run" ;;
  python) packages="$packages $python" ;;
  tests) packages="$packages $python pkg-config libgtest-dev libgmock-dev librapidcheck-dev pocl-opencl-icd libvulkan-dev \
    mesa-vulkan-drivers dpkg-dev file libonnx-testdata python3-fsspec python3-numpy python3-pytest python3-setuptools \
    python3-wheel python3-venv mypy" ;;
  checks) packages="$packages $run python3 pkg-config libgtest-dev libgmock-dev librapidcheck-dev clang clang-format \
    libclang-rt-14-dev lld git" ;;
  cross) packages="$packages python3 g++-aarch64-linux-gnu g++-arm-linux-gnueabihf qemu-user" ;;
  models) packages="$packages npm" ;;
  docs) packages="$packages doxygen python3" ;;
  deb) packages="$packages $python dpkg-dev file" ;;
  browser) packages="$packages chromium" ;;
  viewer) packages="$packages emscripten librange-v3-dev" ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "setup: this is no Debian; what Berth needs is to be there already:" $packages
  exit 0
fi
missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

echo "Installing:$missing"
as_root=""
if [ "$(id -u)" != 0 ]; then as_root=sudo; fi

# npm brings the package ca-certificates, which writes the certificate bundle anew. A bundle put there by hand, to get
# through a proxy, would be lost, and with it the registry.
bundle=/etc/ssl/certs/ca-certificates.crt
kept=""
if [ -s "$bundle" ] && ! dpkg-query -W -f='${Status}' ca-certificates 2>/dev/null | grep -q 'ok installed'; then
  kept="$(mktemp)"
  cat "$bundle" >"$kept"
fi
$as_root apt-get update
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
if [ -n "$kept" ]; then
  $as_root cp "$kept" "$bundle"
  rm -f "$kept"
fi
