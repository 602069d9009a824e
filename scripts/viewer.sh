#!/bin/sh
# Builds build/web/berth.html: the command's report and view, compiled to WebAssembly, in one page that needs no network.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh viewer
# The compiler has a C library of its own, so it is shown these headers alone and not /usr/include.
mkdir -p build/web/include
for header in CLI nlohmann range meta concepts std zlib.h zconf.h; do
  [ ! -e "/usr/include/$header" ] || ln -sfn "/usr/include/$header" "build/web/include/$header"
done
export NODE_PATH=/usr/share/nodejs  # where Debian puts the modules that the compiler loads
cmake --preset web
cmake --build build/web --target berth_web
