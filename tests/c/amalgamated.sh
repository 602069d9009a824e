#!/bin/sh
# The planner as a pair of files: made, compiled without exceptions and run-time types, used by the client in C; and no
# symbol but berth_* leaves it. usage: amalgamated.sh REPOSITORY CXX CC
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 "$1/scripts/amalgamate.py" "$work"
"$2" -std=c++20 -O1 -fno-exceptions -fno-rtti -Wall -Wextra -Wpedantic -Werror -c "$work/berth_plan.cpp" -o "$work/plan.o"
others=$(nm -g --defined-only "$work/plan.o" | awk '$2 == "T" || $2 == "D" || $2 == "B" {print $3}' | grep -v '^berth_' || true)
if [ -n "$others" ]; then
  echo "symbols that leave it: $others"
  exit 1
fi
mkdir "$work/berth"
cp "$work/berth_plan.h" "$work/berth/plan.h"
cat >"$work/main.c" <<'END'
#include <stdio.h>
#include "plan_client.h"
int main(void) {
  const char* wrong = plan_client();
  if (*wrong != 0) fprintf(stderr, "%s\n", wrong);
  return *wrong != 0;
}
END
"$3" -std=c99 -I"$work" -I"$1/tests/c" -c "$1/tests/c/plan_client.c" -o "$work/client.o"
"$3" -std=c99 -I"$1/tests/c" -c "$work/main.c" -o "$work/main.o"
"$2" "$work/main.o" "$work/client.o" "$work/plan.o" -pthread -o "$work/program"
"$work/program"
