#!/usr/bin/env bash
# Prints a sentence for each missing tool, and how to get it. Only tests need Python: they run check-tools.sh python3
set -euo pipefail

missing=0
say() {
  printf 'missing: %s\n' "$1" >&2
  missing=1
}

if ! command -v go >/dev/null; then
  say 'go. Install Go 1.26 or newer from https://go.dev/dl or with your package manager.'
else
  version=$(go env GOVERSION)
  minor=$(printf '%s' "$version" | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
  if [ -n "$minor" ] && [ "$minor" -lt 26 ]; then
    say "Go 1.26 or newer (this is $version). Install it from https://go.dev/dl."
  fi
fi
command -v git >/dev/null || say 'git. Install the package git.'
if ! command -v "${CC:-cc}" >/dev/null && ! command -v gcc >/dev/null; then
  say 'a C compiler, which the race detector and the checker of the language need. Install gcc or clang, for instance the package build-essential or Xcode.'
fi
if [ "${1:-}" = python3 ] && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  say 'Python 3 with venv, which the tests of the images need. Install python3, and on Debian or Ubuntu python3-venv as well.'
fi
exit "$missing"
