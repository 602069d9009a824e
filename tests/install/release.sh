#!/bin/sh
# Releases a small project by scripts/release.sh: every refusal, the tag, and the comparison of the C interface if abidiff
# is there. usage: release.sh REPOSITORY FOLDER CC
# Exit status 77: git is missing.
set -eu
command -v git >/dev/null || exit 77
repository=$1
place=$2
rm -rf "$place"
mkdir -p "$place/project/scripts" "$place/project/.ci" "$place/project/include"
export CC="$3" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost
cd "$place/project"
git init -q -b main
cp "$repository/scripts/release.sh" "$repository/scripts/abi.sh" scripts
printf '#!/bin/sh\necho run >>"%s/runs"\n! [ -e "%s/red" ]\n' "$place" "$place" >.ci/run
chmod +x .ci/run
echo /build/ >.gitignore
echo '{"version": 6, "configurePresets": [{"name": "core", "generator": "Ninja"}]}' >CMakePresets.json

write() { # version, heading's rest, type of the C function's parameter, size of a private array
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(berth VERSION %s LANGUAGES C)\nadd_library(berth berth.c)
target_include_directories(berth PRIVATE include)\n' "$1" >CMakeLists.txt
  printf '# Changes\n\n## %s%s\n\n### Added\n* News of %s.\n\n## 0.0.1\n\nThe first.\n' "$1" "$2" "$1" >CHANGELOG.md
  echo "int berth_twice($3 x); struct berth_handle; int berth_use(struct berth_handle*);" >include/berth.h
  printf '#include "berth.h"\nint berth_twice(%s x) { return (int)(2 * x); }\nstruct berth_handle { int held[%s]; };
int berth_use(struct berth_handle* h) { return h->held[0]; }\nint private_%s(void) { return 0; }\n' "$3" "$4" "$4" >berth.c
  git add -A
  git commit -qm "$1"
}

fail() {
  echo "release: $1"
  cat "$place/said"
  exit 1
}
refused() { # the message
  if scripts/release.sh >"$place/said" 2>&1; then fail "no refusal: $1"; fi
  grep -qF "$1" "$place/said" || fail "not said: $1"
}
released() {
  scripts/release.sh >"$place/said" 2>&1 || fail "refused"
}
runs() {
  wc -l <"$place/runs"
}

write 0.1.0 ", not yet released" int 1
refused "not with '## 0.1.0, YYYY-MM-DD'"
write 0.1.0 "" int 1
refused "not with '## 0.1.0, YYYY-MM-DD'"
write 0.1.0 ", 2026-02-30" int 1
refused "not with '## 0.1.0, YYYY-MM-DD'"
write 0.1.0 ", 2026-02-28" int 1
touch more
refused "the tree has changes"
rm more
! [ -e "$place/runs" ] || fail "CI ran for a tree that is refused"
touch "$place/red"
refused ".ci/run failed"
refused ".ci/run failed"
[ "$(runs)" -eq 2 ] || fail "a failure was recorded as a pass"
[ -z "$(git tag)" ] || fail "a refused tree is tagged"
rm "$place/red"
released
grep -q "abi: not compared" "$place/said" || fail "no line about the C interface"
git cat-file tag v0.1.0 | grep -q "News of 0.1.0" || fail "the tag has no notes"
git cat-file tag v0.1.0 | grep -q "### Added" || fail "the notes have no sections"
! git cat-file tag v0.1.0 | grep -q "The first" || fail "the notes go on with the version before"
tar -tf build/berth-0.1.0.tar.gz | grep -q '^berth-0.1.0/CMakeLists.txt$' || fail "the archive has no sources"
[ "$(runs)" -eq 3 ] || fail "CI did not run"
refused "v0.1.0 is tagged"
git tag -d v0.1.0 >/dev/null
released
[ "$(runs)" -eq 3 ] || fail "CI ran again for a tree that passed"

command -v abidiff >/dev/null || exit 0
write 0.1.1 ", 2026-03-01" int 9
released
grep -q "abi: unchanged since v0.1.0" "$place/said" || fail "an unchanged interface is not named"
write 0.1.2 ", 2026-03-02" long 9
refused "a patch release does not change the C interface"
write 0.2.0 ", 2026-03-03" long 9
released
grep -q "abi: changed since v0.1.1" "$place/said" || fail "a changed interface is not named"
