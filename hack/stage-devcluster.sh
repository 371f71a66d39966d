#!/usr/bin/env bash
# Copies the CRDs that the devcluster binary embeds out of Go modules. The repository does not hold them, so that only go.mod or
# this script pins their version.
set -euo pipefail

# The product uses only the API package of this module, which has no CRDs, so go.mod cannot have its version.
readonly monitoring='github.com/prometheus-operator/prometheus-operator@v0.90.1'

cd "$(dirname "$0")/../devcluster"
readonly target='internal/openshift/crds'

# module_dir MODULE[@VERSION] prints the folder of a module, and downloads it if needed.
module_dir() {
  local answer dir
  if ! answer=$(go mod download -json "$1" 2>&1); then
    printf 'stage-devcluster: cannot download module %s; the Go module proxy must be reachable once:\n%s\n' "$1" "$answer" >&2
    return 1
  fi
  dir=$(printf '%s\n' "$answer" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",\{0,1\}$/\1/p')
  if [ -z "$dir" ]; then
    printf 'stage-devcluster: go mod download says no folder for module %s\n' "$1" >&2
    return 1
  fi
  printf '%s\n' "$dir"
}

# copy DIR FILE... copies changed CRDs.
copy() {
  local dir=$1 file name
  shift
  for file in "$@"; do
    name=$(basename "$file")
    wanted="$wanted $name"
    if [ ! -f "$dir/$file" ]; then
      printf 'stage-devcluster: %s is missing in %s: has the module been upgraded? Look for its new name\n' "$file" "$dir" >&2
      return 1
    fi
    if ! cmp -s "$dir/$file" "$target/$name"; then
      cp "$dir/$file" "$target/$name"
      chmod 0644 "$target/$name"
    fi
  done
}

openshift=$(module_dir github.com/openshift/api)
operator=$(module_dir "$monitoring")
wanted=''
copy "$openshift" \
  payload-manifests/crds/0000_03_config-operator_01_proxies.crd.yaml \
  payload-manifests/crds/0000_03_config-operator_01_securitycontextconstraints.crd.yaml \
  payload-manifests/crds/0000_10_config-operator_01_apiservers-Default.crd.yaml \
  payload-manifests/crds/0000_10_config-operator_01_authentications.crd.yaml \
  payload-manifests/crds/0000_10_config-operator_01_featuregates.crd.yaml \
  payload-manifests/crds/0000_10_config-operator_01_infrastructures-Default.crd.yaml \
  payload-manifests/crds/0000_50_csi-driver_01_clustercsidrivers-Default.crd.yaml \
  payload-manifests/crds/0000_50_storage_01_storages.crd.yaml \
  config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml \
  config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml \
  operator/v1/zz_generated.crd-manifests/0000_40_cloud-credential_00_cloudcredentials.crd.yaml \
  console/v1/zz_generated.crd-manifests/00_consoleclidownloads.crd.yaml \
  console/v1/zz_generated.crd-manifests/00_consolequickstarts.crd.yaml \
  console/v1/zz_generated.crd-manifests/00_consoleyamlsamples.crd.yaml
copy "$operator/example/prometheus-operator-crd" \
  monitoring.coreos.com_prometheusrules.yaml \
  monitoring.coreos.com_servicemonitors.yaml

# Remove files of an earlier version of this list, or they would be embedded as well.
for file in "$target"/*.yaml; do
  case " $wanted " in
  *" $(basename "$file") "*) ;;
  *) rm -f "$file" ;;
  esac
done
