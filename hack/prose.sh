#!/usr/bin/env bash
# Checks the language of pages, and of comments and messages in Go, with Vale and the rules in hack/vale.
#
#   hack/prose.sh [-all] [FILE...]
#
# -all also prints the warnings: faults that are not refused yet.
set -euo pipefail
cd "$(dirname "$0")/.."

level=error
if [ "${1-}" = '-all' ]; then
  level=warning
  shift
fi
if [ "$#" -eq 0 ]; then
  set -- ./*.md docs images test internal cmd api pkg devcluster hack
fi

program=$(GOFLAGS='' go tool -modfile=vale.mod -n vale)
check() { "$program" --no-global --output=line "$@"; }

# The rules must find the faults for which they were made.
if ! diff hack/vale/testdata/faults.txt <(check hack/vale/testdata/faults.md hack/vale/testdata/faults.go); then
  printf 'the rules in hack/vale find other faults in hack/vale/testdata than faults.txt lists\n' >&2
  exit 1
fi

# Vale tries a pattern with the extension .md, too, since it reads Go comments as Markdown.
check --minAlertLevel="$level" --glob='!{**/*_test.*,**/testdata/**,**/zz_generated*}' "$@" || {
  printf 'see "Write a guide" in CONTRIBUTING.md\n' >&2
  exit 1
}
