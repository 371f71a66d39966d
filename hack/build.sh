#!/usr/bin/env bash
# Builds one Go program with a progress display, if its sources have changed since the last build.
#
#   hack/build.sh [--cached] MODULE_DIR PACKAGE OUTPUT [-- GO_BUILD_FLAGS...]
#
# Paths are relative to the root of the repository. A file beside the output has a hash over the module's files, the Go
# version and the flags. --cached is for programs that rarely change: Go keeps the linked program in its cache, so that the next checkout
# need not link it. The display says which program of BUILD_LIST this is: see hack/place.sh.
set -euo pipefail

usage() {
  printf 'usage: hack/build.sh [--cached] MODULE_DIR PACKAGE OUTPUT [-- GO_BUILD_FLAGS...]\n' >&2
  exit 2
}

cached=''
if [ "${1-}" = '--cached' ]; then
  cached=yes
  shift
fi
[ "$#" -ge 3 ] || usage
module=$1 package=$2 output=$3
shift 3
if [ "$#" -gt 0 ]; then
  [ "$1" = '--' ] || usage
  shift
fi

cd "$(dirname "$0")/.."
name=$(basename "$output")
folder=$(dirname "$output")
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
output=$folder/$name
record=$folder/.$name.hash
scratch=$(mktemp -d "$folder/.$name.build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

place=$(hack/place.sh "$name")

# digest prints a hash of its input; Linux and macOS name the program differently.
digest() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1
}

# fingerprint prints a hash of the program's inputs. Ignored files count if the program may embed them; tests and documents
# do not count.
fingerprint() {
  {
    go version
    printf '%s\n' "$package" "$@"
    {
      git ls-files -co --exclude-standard -- "$module"
      git ls-files -oi --exclude-standard -- "$module/*.yaml"
    } | LC_ALL=C sort -u | while IFS= read -r file; do
      case $file in
      *_test.go | *.md | docs/* | .ci/*) continue ;;
      esac
      # A file that was deleted but not yet committed is still listed.
      if [ -f "$file" ]; then printf '%s\n' "$file"; fi
    done >"$scratch/files"
    cat "$scratch/files"
    git hash-object --no-filters --stdin-paths <"$scratch/files"
  } | digest
}

# stale prints the number of packages that are yet to be compiled. This takes a second.
stale() { (cd "$module" && go list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "$@" "$package" | wc -l | tr -d ' '); }

# report shows the progress of the build, in place on a terminal and otherwise every few seconds. It reads the output of
# go build: one line for each package that is compiled, and errors.
report() {
  local total=0 count=0 line shown=$SECONDS clear=''
  if [ -t 2 ]; then clear=$'\r\033[K'; fi
  while IFS= read -r line; do
    case $line in
    *' '* | *:* | '')
      printf '%s%s\n' "$clear" "$line" >&2
      continue
      ;;
    esac
    # Go has begun with this package, so it still counts as stale. Others of the first packages may be compiled already: the total lacks a few then.
    if [ "$count" -eq 0 ]; then total=$(stale "$@"); fi
    count=$((count + 1))
    if [ "$count" -gt "$total" ]; then
      continue
    elif [ "$count" -eq "$total" ]; then
      # The program's own package comes last. A single one takes no time that is worth a line.
      if [ "$total" -gt 1 ]; then printf '%sbuilding %s: %d of %d packages, linking\n' "$clear" "$name$place" "$count" "$total" >&2; fi
    elif [ -n "$clear" ]; then
      printf '%sbuilding %s: %d of %d packages' "$clear" "$name$place" "$count" "$total" >&2
    elif [ $((SECONDS - shown)) -ge 5 ]; then
      printf 'building %s: %d of %d packages\n' "$name$place" "$count" "$total" >&2
      shown=$SECONDS
    fi
  done
}

current=$(fingerprint "$@")
if [ -x "$output" ] && [ -f "$record" ] && [ "$(cat "$record")" = "$current" ]; then
  exit 0
fi

printf 'building %s: compiling and linking\n' "$name$place" >&2

# link writes the program. "go build" always links it; "go run" uses a cached program, and passes it to cp.
link() {
  if [ -n "$cached" ]; then
    go run -v -exec cp "$@" "$package" "$scratch/$name"
  else
    go build -v -o "$scratch/$name" "$@" "$package"
  fi
}

# With pipefail, the exit code is that of go.
status=0
(cd "$module" && link "$@") 2>&1 | report "$@" || status=$?
if [ "$status" -ne 0 ]; then
  printf 'building %s failed\n' "$name" >&2
  exit "$status"
fi
# Running processes keep the previous binary.
mv "$scratch/$name" "$output"
printf '%s\n' "$current" >"$record"
