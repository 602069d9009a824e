#!/bin/sh
# Tags this commit as the release of CMakeLists.txt's version, and packs its sources. Refuses these:
#   a tree with changes that are not committed
#   a version that has a tag, or no date in CHANGELOG.md
#   a commit that `.ci/run all` does not pass, or that it changes
#   a changed C interface in a patch release (scripts/abi.sh)
# .ci/run is not run again for a tree that passed: build/ci_passed names it.
# usage: scripts/release.sh
set -eu
cd "$(dirname "$0")/.."
refuse() {
  echo "release: $1" >&2
  exit 1
}
clean() { [ -z "$(git status --porcelain)" ]; }

version=$(sed -n 's/^project(berth VERSION \([0-9]*\.[0-9]*\.[0-9]*\) .*/\1/p' CMakeLists.txt)
[ -n "$version" ] || refuse "CMakeLists.txt has no version MAJOR.MINOR.PATCH"
clean || refuse "the tree has changes that are not committed"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || refuse "v$version is tagged: raise the version in CMakeLists.txt"
heading=$(grep -m 1 '^## ' CHANGELOG.md || true)
day=${heading#"## $version, "}
[ "$(date -u -d "$day" +%F 2>/dev/null)" = "$day" ] ||
  refuse "CHANGELOG.md begins with '$heading', not with '## $version, YYYY-MM-DD'"

commit=$(git rev-parse HEAD)
tree=$(git rev-parse 'HEAD^{tree}')
if [ "$(cat build/ci_passed 2>/dev/null)" != "$tree" ]; then
  .ci/run all || refuse ".ci/run failed"
  clean && [ "$(git rev-parse HEAD)" = "$commit" ] || refuse "the tree changed while .ci/run ran"
  mkdir -p build
  echo "$tree" >build/ci_passed
fi

last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
status=0
scripts/abi.sh || status=$?
case $status in
  0 | 77) ;;
  1) [ "${last%.*}" != "v${version%.*}" ] || refuse "a patch release does not change the C interface" ;;
  *) refuse "scripts/abi.sh failed" ;;
esac

awk -v heading="$heading" '/^## / { inside = $0 == heading; next } inside' CHANGELOG.md |
  git tag -a "v$version" -F - --cleanup=whitespace "$commit"
archive=build/berth-$version.tar.gz
git archive --prefix="berth-$version/" -o "$archive" "v$version"
sha256sum "$archive"
echo "release: tagged v$version; publish it with: git push origin v$version"
