#!/usr/bin/env bash
# Succeeds if this machine has the packages that real nodes of a devcluster need (make node-packages), and the user is root on Linux. The folders of
# plugins are those of devcluster/internal/node/machine_linux.go. "devcluster real-nodes-check" tries the rest.
set -euo pipefail

[ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ] || exit 1
for program in busybox iptables mkfs.ext4 mkfs.xfs runc; do
  command -v "$program" >/dev/null || exit 1
done
for folder in /usr/lib/cni /usr/libexec/cni /opt/cni/bin; do
  if [ -e "$folder/bridge" ]; then exit 0; fi
done
exit 1
