#!/bin/sh
# Runs fuzz targets (tests/fuzz) one after another, each for the given seconds. `scripts/fuzz.sh 3600` fuzzes each
# target for an hour. Inputs that reached new code are kept in build/fuzz/corpus/TARGET, so a later call continues from
# there. Files put there by hand (models, logs) are seeds. Findings are written to build/fuzz/found, and the exit status
# is 1.
# usage: scripts/fuzz.sh SECONDS [TARGET ...]
set -eu
cd "$(dirname "$0")/.."
seconds=${1-}
case $seconds in '' | *[!0-9]* | 0) echo "usage: scripts/fuzz.sh SECONDS [TARGET ...]" >&2; exit 2 ;; esac
shift
[ $# -gt 0 ] || set -- $(ls tests/fuzz/corpus)
build=build/fuzz
mkdir -p $build/found
[ -e $build/build.ninja ] || cmake --preset fuzz >$build/configure.log
cmake --build $build --target $(printf 'fuzz_%s ' "$@") >$build/build.log || { tail -n 50 $build/build.log; exit 2; }

# Sets `used` to the processor seconds of all children so far; `times` covers this shell only, no inner one.
count_used() {
  times >$build/found/times.$$
  used=$(tr 'ms' '  ' <$build/found/times.$$ | awk 'NR == 2 { printf "%d", 60 * $1 + $2 + 60 * $3 + $4 }')
}

status=0
printf '%-12s %9s %12s %8s %10s  %s\n' target processor inputs edges "last new" found
for target; do
  mkdir -p $build/corpus/"$target"
  log=$build/found/$target.log
  rm -f "$log".*
  verdict=nothing
  count_used
  before=$used
  # No input may take more than 10 s or 2 GiB. Half of the time inputs that reach rare code are changed more often
  # (entropic). That reaches more if runs are short, and less if its overhead is large (docs/decisions/0011).
  for entropic in 0 1; do
    UBSAN_OPTIONS=print_stacktrace=1 $build/bin/fuzz_"$target" -max_total_time=$(((seconds + 1) / 2)) -timeout=10 \
      -rss_limit_mb=2048 -entropic=$entropic -print_final_stats=1 -artifact_prefix=$build/found/"$target"- \
      $build/corpus/"$target" tests/fuzz/corpus/"$target" >"$log.$entropic" 2>&1 || {
      verdict=$(sed -n 's/^SUMMARY: //p; s/.*Test unit written to //p' "$log.$entropic" | tr '\n' ' ')
      status=1
      break
    }
  done
  count_used
  # Prints when the last new edge was reached, in percent of all inputs: a measure of the search's saturation.
  awk -v target="$target" -v verdict="$verdict" -v seconds=$((used - before)) '
    /^#[0-9]+.* cov: / { for (i = 1; i < NF; ++i) if ($i == "cov:" && $(i + 1) > edges) { edges = $(i + 1); at = inputs + substr($1, 2) } }
    /^stat::number_of_executed_units:/ { inputs += $2 }
    END { printf "%-12s %8ds %12d %8d %9.0f%%  %s\n", target, seconds, inputs, edges, inputs ? 100 * at / inputs : 0, verdict }' "$log".*
done
rm -f $build/found/times.$$
exit $status
