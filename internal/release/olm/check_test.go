package olm_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/csi-operators/csi-operators/internal/release/olm"
)

const csvFile = "manifests/aws-efs-csi-driver-operator.clusterserviceversion.yaml"

// Somebody may edit a bundle by hand, or the generator may have a bug.
func TestWhatOLMWouldFailOnIsNamed(t *testing.T) {
	right, expected := shipped(t, olm.Packages()[0])
	const deployment = "spec.install.spec.deployments[0].spec.template.spec"
	for name, example := range map[string]struct{ from, to, want string }{
		"other name":      {"name: aws-efs-csi-driver-operator.v5.3.0\n", "name: aws-efs-csi-driver-operator.5.3.0\n", "metadata.name: it is"},
		"long name":       {"name: aws-efs-csi-driver-operator.v5.3.0\n", "name: aws-efs-csi-driver-operator.v5.3.0-" + strings.Repeat("x", 30) + "\n", "metadata.name: 65 bytes, OLM takes no more than 63"},
		"other version":   {"\n  version: 5.3.0\n", "\n  version: 5.3.1\n", `spec.version: it is "5.3.1", want "5.3.0"`},
		"minKubeVersion":  {"minKubeVersion: 1.28.0", "minKubeVersion: \"1.28\"", "spec.minKubeVersion:"},
		"misspelt field":  {"  minKubeVersion:", "  minKubernetesVersion:", `unknown field "spec.minKubernetesVersion"`},
		"key twice":       {"  maturity: stable", "  maturity: stable\n  maturity: alpha", `"maturity" already set`},
		"no range":        {"olm.skipRange: '>=0.0.1 <5.3.0'", "other: x", "olm.skipRange: it is missing"},
		"wrong range":     {"'>=0.0.1 <5.3.0'", "'newer'", `olm.skipRange: "newer" is no range`},
		"no maximum":      {`"type": "olm.maxOpenShiftVersion"`, `"type": "olm.other"`, "olm.maxOpenShiftVersion is missing"},
		"maximum reached": {`"value": "5.4"`, `"value": "5.3"`, "olm.maxOpenShiftVersion 5.3 is not above the release, 5.3.0"},
		"other account":   {"serviceAccountName: aws-efs-csi-driver-operator\n          ", "serviceAccountName: default\n          ", deployment + `.serviceAccountName: OLM does not create "default", which has no permissions`},
		"priority class": {"priorityClassName: system-cluster-critical", "priorityClassName: storage-critical", deployment + `.priorityClassName: PriorityClass "storage-critical" does not exist in every cluster: ` +
			"use system-cluster-critical or system-node-critical"},
		"no probe":         {"livenessProbe:", "startupProbe:", deployment + ".containers[0]: it has no livenessProbe or no readinessProbe"},
		"late":             {"periodSeconds: 2\n", "periodSeconds: 10\n", deployment + ".containers[0]: its readinessProbe runs too seldom"},
		"selector":         {"matchLabels:\n              app: aws-efs", "matchLabels:\n              app: other-aws-efs", "deployments[0].spec.selector: it does not match"},
		"rule dropped":     {"          - tokenreviews\n", "          - tokenreview\n", "clusterPermissions: a rule of config/rbac/role.yaml is missing"},
		"rule added":       {"          - tokenreviews\n", "          - tokenreviews\n          - secrets\n", "clusterPermissions: the rule is not in config/rbac/role.yaml"},
		"image missing":    {"  - image: registry.k8s.io/sig-storage/livenessprobe:v2.17.0\n    name: livenessprobe\n", "", `spec.relatedImages: "registry.k8s.io/sig-storage/livenessprobe:v2.17.0" is missing`},
		"other image":      {"value: registry.k8s.io/sig-storage/livenessprobe:v2.17.0", "value: example.com/livenessprobe:v1", `image "example.com/livenessprobe:v1" is not in images/images.yaml`},
		"container image":  {"containerImage: quay.io/csi-operators/aws-efs-csi-driver-operator", "containerImage: quay.io/other", "metadata.annotations.containerImage: no container has"},
		"descriptor":       {"path: claimRef.name", "path: claimRef.nam", "statusDescriptors[2].path: SharedVolume has no field status.claimRef.nam"},
		"other CRD":        {"      name: sharedvolumes.aws-efs", "      name: volumes.aws-efs", "owned[0].name: manifests/ has no CRD of volumes."},
		"other kind":       {"      kind: SharedVolume\n", "      kind: Volume\n", "owned[0]: manifests/sharedvolumes.aws-efs.managed.openshift.io.crd.yaml does not define version v1alpha1 of kind Volume"},
		"no example":       {`"kind": "SharedVolume"`, `"kind": "ClusterCSIDriver"`, "it has no example of SharedVolume"},
		"example is wrong": {`"accessPointID": "fsap-0123456789abcdef"`, `"accessPointId": "fsap-1"`, "alm-examples[0]: SharedVolume sv1: unknown field spec.accessPointId"},
		"example no JSON":  {"alm-examples: |-\n      [", "alm-examples: |-\n      (", "metadata.annotations.alm-examples: it is not the JSON that OLM reads"},
		"no annotation":    {"capabilities: Full Lifecycle", "capability: Full Lifecycle", "metadata.annotations.capabilities: it is missing"},
		"capabilities":     {"capabilities: Full Lifecycle", "capabilities: Everything", `metadata.annotations.capabilities: "Everything" is none of Basic Install`},
		"categories":       {"categories: Storage", "categories: Storage,Files", `metadata.annotations.categories: "Files" is none of AI/Machine Learning`},
		"created":          {"createdAt: \"2026-11-21T00:00:00Z\"", "createdAt: \"2026-11-21\"", `metadata.annotations.createdAt: "2026-11-21" is no time`},
		"maintainer":       {"email: csi-operators@users.noreply.github.com", "email: nowhere", "spec.maintainers[0]: it needs a name and a valid email"},
		"link":             {"links:\n  - name: Installation\n    url: https", "links:\n  - name: Installation\n    url: \"\" # https", "spec.links[0]: it needs a name and a valid url"},
		"no descriptor":    {"path: accessPointID\n", "path: fileSystemID\n", "SharedVolume has no specDescriptor of accessPointID"},
		"feature":          {`disconnected: "true"`, `disconnected: "yes"`, `features.operators.openshift.io/disconnected: "yes" is neither true nor false`},
		"install modes":    {"supported: true\n    type: AllNamespaces", "supported: false\n    type: AllNamespaces", "spec.installModes: they are"},
		"icon":             {"base64data: PHN2", "base64data: PPN2", "spec.icon[0].base64data: it is no picture"},
		"namespace":        {"  name: aws-efs-csi-driver-operator.v5.3.0\n", "  name: aws-efs-csi-driver-operator.v5.3.0\n  namespace: default\n", "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(right)
			if !strings.Contains(string(files[csvFile]), example.from) {
				t.Fatalf("the bundle has no %q", example.from)
			}
			files[csvFile] = []byte(strings.Replace(string(files[csvFile]), example.from, example.to, 1))
			refused(t, olm.Check(files, expected), csvFile, example.want)
		})
	}
}

// refused expects an error with a line that has both texts.
func refused(t *testing.T, err error, file, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("it is taken, want %q", want)
	}
	for line := range strings.Lines(err.Error()) {
		if strings.Contains(line, file) && strings.Contains(line, want) {
			return
		}
	}
	t.Errorf("error:\n%v\nwant %q of %s", err, want, file)
}

func TestFilesThatOLMWouldNotInstallAreNamed(t *testing.T) {
	right, expected := shipped(t, olm.Packages()[0])
	const service = "manifests/aws-efs-csi-driver-operator-metrics_service.yaml"
	const crd = "manifests/sharedvolumes.aws-efs.managed.openshift.io.crd.yaml"
	for name, example := range map[string]struct {
		file string
		edit func(text string) string
		want string
	}{
		"no annotations":     {"metadata/annotations.yaml", func(string) string { return "" }, "annotations.operators.operatorframework.io.bundle.package.v1: it is \"\""},
		"other channel":      {"metadata/annotations.yaml", replace("channels.v1: stable,preview", "channels.v1: fast"), `channels.v1: it is "fast", want "stable,preview"`},
		"two objects":        {service, func(text string) string { return text + "---\n" + text }, " has 2 objects: write one object into each file"},
		"no object":          {service, func(string) string { return "" }, "0 objects"},
		"misspelt":           {service, replace("targetPort", "targetport"), `unknown field "spec.ports[0].targetport"`},
		"namespace":          {service, replace("  name: aws-efs-csi-driver-operator-metrics\n", "  name: aws-efs-csi-driver-operator-metrics\n  namespace: default\n"), "metadata.namespace: OLM replaces \"default\""},
		"unsupported":        {service, replace("kind: Service\n", "kind: Pod\n"), "kind: OLM does not install v1 Pod"},
		"too large":          {service, func(text string) string { return text + "# " + strings.Repeat("x", 1<<20) }, "bytes, OLM takes no more than 1048576"},
		"second CSV":         {"manifests/another.yaml", nil, "a second ClusterServiceVersion"},
		"needed field":       {crd, replace("            required:\n            - accessPointID\n", "            required:\n            - size\n            - accessPointID\n"), "spec requires size, which existing objects may lack"},
		"lost field":         {crd, replace("\n              message:\n", "\n              text:\n"), "status lost the field message"},
		"enumeration":        {crd, replace("                default: Pending\n", "                default: Pending\n                enum: [Ready]\n"), "status.phase takes fewer values"},
		"shorter":            {crd, replace("                pattern: ^fs-[0-9a-f]+$\n", "                pattern: ^fs-[0-9a-f]+$\n                maxLength: 40\n"), "spec.fileSystemID has a lower maxLength, 40"},
		"rule":               {crd, replace("                pattern: ^fs-[0-9a-f]+$\n", "                pattern: ^fs-[0-9a-f]+$\n                x-kubernetes-validations: [{rule: self == oldSelf}]\n"), "spec.fileSystemID has a new rule: self == oldSelf"},
		"another type":       {crd, replace("                pattern: ^fs-[0-9a-f]+$\n                type: string", "                pattern: ^fs-[0-9a-f]+$\n                type: integer"), "spec.fileSystemID has other constraints than before"},
		"version not served": {crd, replace("    served: true", "    served: false"), "version v1alpha1 is not served any more"},
		"CRD not owned":      {crd, replace("  name: sharedvolumes.aws-efs", "  name: volumes.aws-efs"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(right)
			before := string(files[example.file])
			if example.edit == nil {
				files[example.file] = files[csvFile]
			} else if files[example.file] = []byte(example.edit(before)); string(files[example.file]) == before {
				t.Fatal("nothing was changed")
			}
			file := example.file
			switch name {
			case "second CSV", "CRD not owned":
				file = csvFile
			case "too large":
				file = "manifests/"
			}
			refused(t, olm.Check(files, expected), file, example.want)
		})
	}
}

func replace(from, to string) func(string) string {
	return func(text string) string { return strings.Replace(text, from, to, 1) }
}

func TestABundleWithoutACSVIsRefused(t *testing.T) {
	files, expected := shipped(t, olm.Packages()[0])
	delete(files, csvFile)
	refused(t, olm.Check(files, expected), "manifests/", "no ClusterServiceVersion")
}

func TestRBACThatIsTooBroadIsRefused(t *testing.T) {
	right, expected := shipped(t, olm.Packages()[0])
	for want, rule := range map[string]rbacv1.PolicyRule{
		"a rule must not hold *":                     {APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}, ResourceNames: []string{"a"}},
		"Secrets must be narrowed by resourceNames":  {APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		"escalate must be narrowed by resourceNames": {APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"roles"}, Verbs: []string{"escalate"}},
	} {
		broad := expected
		broad.RBAC.Cluster = append(slices.Clone(expected.RBAC.Cluster), rule)
		if err := olm.Check(right, broad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		broad = expected
		broad.RBAC.Namespaced = append(slices.Clone(expected.RBAC.Namespaced), rule)
		if err := olm.Check(right, broad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
