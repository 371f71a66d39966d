#!/usr/bin/env bash
# Prints which program of BUILD_LIST a program is: " (program 2 of 7)". BUILD_LIST names the programs that the caller needs, in the order of their
# builds. Programs that need no build count, too. Without BUILD_LIST, this prints nothing.
#
#   hack/place.sh PROGRAM
set -euo pipefail

number=0
for program in ${BUILD_LIST-}; do
  number=$((number + 1))
  if [ "$program" = "$1" ]; then printf ' (program %d of %d)' "$number" "$(wc -w <<<"$BUILD_LIST")"; fi
done
