package install

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/openshift"
)

// Check is the result of one preflight check.
type Check struct {
	Name string `json:"name"`
	// State is ok, missing or unknown. If the state of a check is "missing", the command installs nothing.
	State string `json:"state"`
	// Text says what the check found, and what to do.
	Text string `json:"text"`
}

// States of a check.
const (
	ok      = "ok"
	missing = "missing"
	unknown = "unknown"
)

// request has the options of the user.
type request struct {
	namespace, controllerRole, nodeRole string
	// approval is Automatic or Manual. If it is empty, an existing Subscription keeps its approval.
	approval string
}

// preflight runs all checks. It continues after a failed check, so that the user sees all problems in one run. It makes no requests.
func preflight(s seen, wanted request) []Check {
	return []Check{
		checkAPI(s), checkPlatform(s), checkVersion(s), checkConsole(s), checkOLM(s), checkOthers(s, wanted), checkNamespace(s, wanted),
		checkCredentials(s, wanted),
	}
}

func checkAPI(s seen) Check {
	switch lacks := s.lacks("ClusterCSIDriver"); {
	case lacks != "":
		return Check{"API", unknown, lacks}
	case !s.hasDrivers:
		return Check{"API", missing, "the cluster serves no ClusterCSIDriver: the operator needs OpenShift or OKD"}
	}
	return Check{"API", ok, "the cluster serves ClusterCSIDriver"}
}

func checkPlatform(s seen) Check {
	switch {
	case s.infrastructure == nil:
		return Check{"platform", unknown, cmp.Or(s.lacks("Infrastructure"), "the cluster has no Infrastructure named cluster")}
	case s.infrastructure.Status.PlatformStatus == nil || s.infrastructure.Status.PlatformStatus.AWS == nil:
		return Check{"platform", missing, "the cluster is not on AWS, and EFS exists only there"}
	}
	return Check{"platform", ok, "AWS, region " + s.infrastructure.Status.PlatformStatus.AWS.Region}
}

// firstVersion returns the first version of OpenShift that can run the operator.
func firstVersion() *version.Version { return version.MajorMinor(4, 15) }

// lastVersion returns olm.maxOpenShiftVersion of the bundle. OLM does not let a cluster update beyond this version.
func lastVersion() *version.Version { return version.MajorMinor(5, 4) }

// firstWithCatalog returns the first version of OpenShift whose OLM can serve a catalog without opm (decision 0042).
func firstWithCatalog() *version.Version { return version.MajorMinor(4, 21) }

func checkVersion(s seen) Check {
	switch {
	case s.version == nil:
		return Check{"version", unknown, cmp.Or(s.lacks("ClusterVersion"), "ClusterVersion \"version\" does not exist, or names no version of OpenShift")}
	case s.version.LessThan(firstVersion()):
		return Check{"version", missing, fmt.Sprintf("OpenShift %s is older than %s: update the cluster", s.version, firstVersion())}
	case lastVersion().LessThan(s.version):
		return Check{"version", unknown, fmt.Sprintf("OpenShift %s is newer than %s, the last version that this plugin knows: check for a "+
			"newer plugin", s.version, lastVersion())}
	case s.version.LessThan(firstWithCatalog()):
		return Check{"version", ok, fmt.Sprintf("OpenShift %s: its OLM needs the catalog image that contains the program opm", s.version)}
	}
	return Check{"version", ok, "OpenShift " + s.version.String()}
}

// checkConsole finds a cluster that does not serve the kinds of OpenShift's console. OLM would refuse the whole bundle in such a cluster, because the
// bundle has objects of these kinds.
func checkConsole(s seen) Check {
	switch lacks := s.lacks("ClusterVersion"); {
	case lacks != "":
		return Check{"console", unknown, lacks}
	case s.noConsole:
		return Check{"console", missing, "the cluster lacks the capability Console, and OLM refuses the bundle without it. Enable it: " +
			`oc patch clusterversion version --type=merge -p '{"spec":{"capabilities":{"additionalEnabledCapabilities":["Console"]}}}'`}
	}
	return Check{"console", ok, "the cluster serves the console's quick starts and samples"}
}

func checkOLM(s seen) Check {
	switch lacks := s.lacks("Subscription"); {
	case lacks != "":
		return Check{"OLM", unknown, lacks}
	case !s.hasOLM:
		return Check{"OLM", missing, "the cluster serves no Subscription: the Operator Lifecycle Manager, which installs the operator, is missing"}
	}
	return Check{"OLM", ok, "the cluster serves Subscription"}
}

// checkOthers finds other installations of an EFS driver.
func checkOthers(s seen, wanted request) Check {
	ours := wanted.namespace + "/" + awsefs.Operator
	for _, name := range slices.Sorted(maps.Keys(s.subscriptions)) {
		if name != ours || s.subscriptions[name] != "csi-operators" {
			return Check{"other operators", missing, fmt.Sprintf("Subscription %s installs an EFS operator from catalog %s: see "+
				"docs/guide/upgrade-from-community.md, and \"oc storage migrate plan\"", name, s.subscriptions[name])}
		}
	}
	lacks := s.lacks("Subscription", "CSIDriver")
	if s.csiDriver != nil && s.csiDriver.Labels[openshift.ManagedByLabel] != awsefs.Operator && len(s.subscriptions) == 0 {
		lacks = s.lacks("Subscription", "DaemonSet")
		switch {
		case s.charted:
			return Check{"other operators", missing, "DaemonSet " + s.plugins[0] + " runs the driver for a Helm release: see " +
				"docs/guide/from-the-helm-chart.md"}
		case len(s.plugins) > 0:
			return Check{"other operators", missing, "DaemonSet " + s.plugins[0] + " runs the driver for another owner: see " +
				"docs/guide/upgrade-from-community.md, and \"oc storage migrate plan\""}
		case lacks == "":
			return Check{"other operators", ok, "no other operator runs the driver; the operator adopts CSIDriver " + awsefs.Name +
				", which a predecessor left"}
		}
	}
	if lacks != "" {
		return Check{"other operators", unknown, lacks + ": does another operator or a Helm chart run the driver?"}
	}
	return Check{"other operators", ok, "no other operator runs the driver"}
}

func checkNamespace(s seen, wanted request) Check {
	lacks := s.lacks("Namespace", "OperatorGroup")
	switch {
	case s.namespace != nil && s.namespace.DeletionTimestamp != nil:
		return Check{"namespace", missing, wanted.namespace + " is being deleted: wait until the deletion has finished"}
	case len(s.groups) > 1:
		return Check{"namespace", missing, fmt.Sprintf("%s has several OperatorGroups, %s: OLM installs nothing there until only one is left",
			wanted.namespace, strings.Join(s.groups, ", "))}
	case lacks != "":
		return Check{"namespace", unknown, lacks + ": with a second OperatorGroup, OLM installs nothing"}
	case s.namespace == nil:
		return Check{"namespace", ok, wanted.namespace + " will be created"}
	}
	return Check{"namespace", ok, wanted.namespace + " exists"}
}

// usesSTS reports whether the cluster uses STS. In such a cluster, the cloud-credential-operator does not create access keys, so the driver's pods
// need IAM roles.
func (s seen) usesSTS() bool { return s.issuer != "" }

func checkCredentials(s seen, wanted request) Check {
	lacks := s.lacks("Authentication", "CloudCredential")
	switch {
	case s.usesSTS() && wanted.controllerRole == "":
		return Check{"credentials", missing, "the cluster uses STS, so the driver needs roles: create them from the IAM documents that \"oc storage " +
			"install efs --iam-documents FOLDER --account NUMBER\" writes, and set --role-arn and --node-role-arn"}
	case s.usesSTS() && driver.CheckRole(wanted.controllerRole) != nil:
		return Check{"credentials", missing, fmt.Sprintf("--role-arn %q %v", wanted.controllerRole, driver.CheckRole(wanted.controllerRole))}
	case s.usesSTS() && wanted.nodeRole != "" && driver.CheckRole(wanted.nodeRole) != nil:
		return Check{"credentials", missing, fmt.Sprintf("--node-role-arn %q %v", wanted.nodeRole, driver.CheckRole(wanted.nodeRole))}
	case s.usesSTS():
		return Check{"credentials", ok, "STS, with role " + wanted.controllerRole}
	case lacks != "":
		return Check{"credentials", unknown, lacks + ": does the cluster use STS, or credentials mode Manual?"}
	case wanted.controllerRole != "" || wanted.nodeRole != "":
		return Check{"credentials", missing, "the cluster does not use STS, so the driver needs no roles: omit --role-arn and --node-role-arn"}
	case s.credentials == nil:
		return Check{"credentials", unknown, "the cluster has no CloudCredential named cluster: create the Secrets as in docs/guide/credentials.md"}
	case s.credentials.Spec.CredentialsMode == operatorv1.CloudCredentialsModeManual:
		return Check{"credentials", unknown, "credentials mode Manual: you must create the Secrets that the driver's CredentialsRequests name"}
	}
	return Check{"credentials", ok, "the cloud-credential-operator creates the Secrets of CredentialsRequests"}
}

// missingOf returns the names of the checks that prevent the installation.
func missingOf(checks []Check) []string {
	var found []string
	for _, check := range checks {
		if check.State == missing {
			found = append(found, check.Name)
		}
	}
	return found
}

// objectsOf returns the objects to apply, in this order: the objects in the files of a folder, and then the ClusterCSIDriver.
func objectsOf(folder fs.FS, s seen, wanted request) ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(folder, "install/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("look for the files of the installation: %w", err)
	}
	if len(files) == 0 {
		return nil, errors.New("the plugin has no files of the installation: build or download it again")
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		text, err := fs.ReadFile(folder, s.fileFor(folder, file))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path.Base(file), err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			return nil, fmt.Errorf("read %s: %w", path.Base(file), err)
		}
		if object.GetKind() == "OperatorGroup" && len(s.groups) > 0 {
			// The namespace already has an OperatorGroup. With a second OperatorGroup, OLM would stop all operators in the namespace.
			continue
		}
		move(object, wanted.namespace)
		if object.GetKind() == "Subscription" {
			if err := errors.Join(addRoles(object, wanted), setApproval(object, cmp.Or(wanted.approval, s.approval))); err != nil {
				return nil, err
			}
		}
		objects = append(objects, object)
	}
	driver := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"managementState": string(operatorv1.Managed)}}}
	driver.SetGroupVersionKind(openshift.ClusterCSIDriverKind())
	driver.SetName(awsefs.Name)
	return append(objects, driver), nil
}

// fileFor returns the path of the file to apply in this cluster. For a version of OpenShift before 4.21, this is the file of the same name in folder
// before-4.21, if such a file exists.
func (s seen) fileFor(folder fs.FS, file string) string {
	older := path.Join(path.Dir(file), "before-4.21", path.Base(file))
	if _, err := fs.Stat(folder, older); err == nil && s.version != nil && s.version.LessThan(firstWithCatalog()) {
		return older
	}
	return file
}

// move puts an object of the operator's default namespace into another namespace.
func move(object *unstructured.Unstructured, namespace string) {
	switch {
	case object.GetKind() == "Namespace":
		object.SetName(namespace)
	case object.GetNamespace() == kube.DefaultNamespace:
		object.SetNamespace(namespace)
	}
}

// addRoles writes the roles into the Subscription. OLM then sets them as environment variables of the operator.
func addRoles(subscription *unstructured.Unstructured, wanted request) error {
	var env []any
	for _, one := range []struct{ name, value string }{{"ROLEARN", wanted.controllerRole}, {"NODE_ROLEARN", wanted.nodeRole}} {
		if one.value != "" {
			env = append(env, map[string]any{"name": one.name, "value": one.value})
		}
	}
	if env == nil {
		return nil
	}
	if err := unstructured.SetNestedSlice(subscription.Object, env, "spec", "config", "env"); err != nil {
		return fmt.Errorf("write the roles into the Subscription: %w", err)
	}
	return nil
}

// setApproval sets installPlanApproval of the Subscription. If the approval is empty, setApproval leaves the field unset, and OLM uses Automatic.
func setApproval(subscription *unstructured.Unstructured, approval string) error {
	if approval == "" {
		return nil
	}
	if err := unstructured.SetNestedField(subscription.Object, approval, "spec", "installPlanApproval"); err != nil {
		return fmt.Errorf("write the approval into the Subscription: %w", err)
	}
	return nil
}

func nameOf(object *unstructured.Unstructured) string {
	return strings.TrimSpace(object.GetKind() + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"))
}
