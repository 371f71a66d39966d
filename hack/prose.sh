#!/usr/bin/env bash
# Checks the language of pages, and of comments and messages in Go, with Vale and the rules in hack/vale.
#
#   hack/prose.sh [-all] [FILE...]
#
# -all also prints warnings: long sentences in comments, and refused words in comments within the limit.
set -euo pipefail
cd "$(dirname "$0")/.."

# The number of refused words in comments and messages of all product code. They may only fall.
most_comments=8 most_messages=0

all=''
if [ "${1-}" = '-all' ]; then
  all=yes
  shift
fi
product='internal cmd api pkg devcluster hack'
if [ "$#" -eq 0 ]; then
  # shellcheck disable=SC2086
  set -- ./*.md docs images test $product
fi

program=$(GOFLAGS='' go tool -modfile=vale.mod -n vale)
# Vale exits with 1 if it finds errors, and with 2 if it can't run. It tries a pattern with the extension .md, too, since it reads Go as Markdown.
vale() {
  local code=0
  "$program" --no-global --output=line "$@" || code=$?
  [ "$code" -lt 2 ]
}
skip='!{**/*_test.*,**/testdata/**,**/zz_generated*}'

# The rules must find the faults for which they were made.
faults() {
  vale hack/vale/testdata/faults.md hack/vale/testdata/faults.go
  vale --config=hack/vale/messages.ini hack/vale/testdata/faults.go
}
if ! diff hack/vale/testdata/faults.txt <(faults); then
  printf 'the rules in hack/vale find other faults in hack/vale/testdata than faults.txt lists\n' >&2
  exit 1
fi

pages=$(vale --glob="$skip" "$@")
messages=$(vale --config=hack/vale/messages.ini --glob="$skip" "$@")

# only prints the lines that a pattern matches, and count their number.
only() { grep -E "$1" || true; }
count() { grep -c . || true; }
failed=''
wrong=$(only '\.md:' <<<"$pages")
comments=$(only '\.go:[0-9:]+Plain\.(Inverted|Words)' <<<"$pages" | only "^(${product// /|})/")
messages=$(only "^(${product// /|})/" <<<"$messages")
if [ -n "$wrong" ]; then
  printf '%s\n' "$wrong"
  failed=yes
fi
if [ "$(count <<<"$comments")" -gt "$most_comments" ]; then
  printf '%s\ncomments have %d refused words, at most %d\n' "$comments" "$(count <<<"$comments")" "$most_comments"
  failed=yes
fi
if [ "$(count <<<"$messages")" -gt "$most_messages" ]; then
  printf '%s\nmessages have %d refused words, at most %d\n' "$messages" "$(count <<<"$messages")" "$most_messages"
  failed=yes
fi
if [ -n "$all" ]; then
  only '\.go:' <<<"$pages"
  printf '%s\n' "$messages"
  printf 'refused words: %d in comments, %d in messages\n' "$(count <<<"$comments")" "$(count <<<"$messages")" >&2
fi
if [ -n "$failed" ]; then
  printf 'see "Write a guide" in CONTRIBUTING.md\n' >&2
  exit 1
fi
