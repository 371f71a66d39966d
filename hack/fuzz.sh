#!/usr/bin/env bash
# Fuzzes each Fuzz function of the module for a time: fuzz.sh TIME. "make test" runs their seeds, and a fixed share of the
# plans of SharedVolumes.
set -euo pipefail

time=${1:?usage: fuzz.sh TIME, such as 2m}
grep -rl --include='*_test.go' '^func Fuzz' internal pkg | while read -r file; do
  sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$file" | while read -r name; do
    echo "$name of $(dirname "$file") for $time"
    go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "./$(dirname "$file")"
  done
done
