#!/usr/bin/env bash
# Builds the programs that test/real/programs/programs.txt lists into bin/real, each in the folder of its released module: with the
# module's own go.mod and go.sum, its replace directives included, which `go install` refuses. It skips a program that
# the same Go has built from the same line.
#
# One thing differs from the released build. The snapshotter's module replaces another module by a folder that it lacks; the
# build uses that module's release of the same version.
set -euo pipefail

cd "$(dirname "$0")/.."
readonly list=test/real/programs/programs.txt out=$PWD/bin/real
mkdir -p "$out"
scratch=$(mktemp -d "$out/.build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# field NAME reads a field of the output of `go mod download -json`.
field() { sed -n "s/^[[:space:]]*\"$1\": \"\(.*\)\",\{0,1\}\$/\1/p"; }

# download MODULE VERSION downloads the module and prints Go's description of it.
download() {
  local answer
  if ! answer=$(cd "$scratch" && GOFLAGS=-mod=mod go mod download -json "$1@$2" 2>&1); then
    printf 'build-real: cannot download %s@%s; the Go module proxy must be reachable once:\n%s\n' "$1" "$2" "$answer" >&2
    return 1
  fi
  printf '%s\n' "$answer"
}

# build BINARY PACKAGE MODULE VERSION SUM
build() {
  local binary=$1 package=$2 module=$3 version=$4 sum=$5 answer dir client
  answer=$(download "$module" "$version")
  if [ "$(field Sum <<<"$answer")" != "$sum" ]; then
    printf 'build-real: %s@%s is not the module that %s names: its checksum is %s\n' "$module" "$version" "$list" "$(field Sum <<<"$answer")" >&2
    return 1
  fi
  dir=$(field Dir <<<"$answer")
  cp "$dir/go.mod" "$scratch/go.mod" && cp "$dir/go.sum" "$scratch/go.sum"
  chmod u+w "$scratch/go.mod" "$scratch/go.sum"
  client=$(sed -n 's/^replace \(github.com[^ ]*\) => \.\/.*/\1/p' "$scratch/go.mod")
  if [ -n "$client" ]; then
    go mod edit -replace="$client=$client@$version" "$scratch/go.mod"
    answer=$(download "$client" "$version")
    printf '%s %s %s\n' "$client" "$version" "$(field Sum <<<"$answer")" "$client" "$version/go.mod" "$(field GoModSum <<<"$answer")" >>"$scratch/go.sum"
    # The CRDs of the kinds that the program watches.
    mkdir -p "$out/crds"
    cp "$(field Dir <<<"$answer")"/config/crd/snapshot.storage.k8s.io_*.yaml "$out/crds/"
    chmod -R u+w "$out/crds"
  fi
  printf 'building %s%s: version %s\n' "$binary" "$(hack/place.sh "$binary")" "$version" >&2
  # A module leaves its vendored packages out, and keeps their list.
  local flags=()
  [ ! -d "$dir/vendor" ] || flags=(-mod=mod)
  # As hack/build.sh does with --cached. Images hold the program alone, so it is linked statically, as the released ones are.
  (cd "$dir" && CGO_ENABLED=0 go run -exec cp "${flags[@]}" -modfile="$scratch/go.mod" -ldflags "-s -w -X main.version=$version" "$package" "$scratch/$binary")
  # Running processes keep the previous binary.
  mv "$scratch/$binary" "$out/$binary"
}

# All programs count, if the caller has no list of its own.
export BUILD_LIST=${BUILD_LIST-$(sed -n 's/^\([^# ][^ ]*\) .*/\1/p' "$list")}
while read -r binary package module version sum; do
  case $binary in '' | '#'*) continue ;; esac
  line="$(go version) static $package $module $version $sum"
  if [ ! -x "$out/$binary" ] || [ "$(cat "$out/.$binary.built" 2>/dev/null)" != "$line" ]; then
    build "$binary" "$package" "$module" "$version" "$sum"
    printf '%s\n' "$line" >"$out/.$binary.built"
  fi
done <"$list"
