#!/usr/bin/env bash
# govulncheck.sh DATABASE PACKAGE...: looks for known vulnerabilities in what the packages call. DATABASE is a copy of the Go vulnerability database,
# a folder or a .zip of it. If it is empty, the tool reads https://vuln.go.dev.
set -euo pipefail
database=$1
shift
arguments=()
case $database in
'') ;;
*.zip)
	[ -f "$database" ] || { echo "VULNDB=$database: there is no such file" >&2; exit 1; }
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	python3 -m zipfile -e "$database" "$folder"
	arguments=(-db "file://$folder")
	;;
*)
	folder=$(cd "$database" 2>/dev/null && pwd) || { echo "VULNDB=$database: there is no such folder" >&2; exit 1; }
	arguments=(-db "file://$folder")
	;;
esac
if [ "${#arguments[@]}" -gt 0 ] && [ ! -f "$folder/index/db.json" ]; then
	echo "VULNDB=$database: it has no index/db.json, so it is not a copy of https://vuln.go.dev" >&2
	exit 1
fi
"${GOVULNCHECK:-govulncheck}" "${arguments[@]}" "$@" || {
	code=$?
	[ "$code" -ne 127 ] || echo 'go install golang.org/x/vuln/cmd/govulncheck@v1.9.0 installs it' >&2
	exit "$code"
}
