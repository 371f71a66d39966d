package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	openCondition     = "AWSEFSSharedVolumesOpen"
	outdatedCondition = "AWSEFSSharedVolumeDefinitionOutdated"
)

// withoutPolicies makes the cluster one in which this operator has never been, until the test ends. The operator must not run.
func withoutPolicies(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	remove := func(ctx context.Context) error {
		for _, name := range []string{crdName, "unlisted-namespaces." + crdName} {
			_, err := cluster.Kubectl(ctx, "delete", "--ignore-not-found", "validatingadmissionpolicies,validatingadmissionpolicybindings", name)
			if err != nil {
				return err
			}
		}
		return nil
	}
	env.Must(t, remove(t.Context()))
	t.Cleanup(func() {
		if err := errors.Join(remove(context.Background()), cluster.SharedVolumesServedBefore(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

func TestANewInstallationDeniesWhatNoListAllows(t *testing.T) {
	cluster := clean(t)
	withoutPolicies(t, cluster)
	operator := operate(t, cluster)
	listed, bare := namespace(t, cluster, "listed", listing(env.FileSystem)), namespace(t, cluster, "bare", nil)
	env.Eventually(t, "shut out", func() error { return denied(try(t, cluster, bare.Name)) })
	sv := share(t, cluster, listed.Name, "sv1")
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
	// It stays so in the next life, although there are SharedVolumes now.
	env.Must(t, operator.Stop())
	operate(t, cluster)
	policed(t, cluster)
	env.Must(t, denied(try(t, cluster, bare.Name)))
	value, err := cluster.Kubectl(t.Context(), "get", "validatingadmissionpolicy", crdName, "-o",
		`jsonpath={.metadata.annotations.aws-efs\.managed\.openshift\.io/unlisted-namespaces-default}`)
	if err != nil || value != "Deny" {
		t.Errorf("remembered is %q (%v)", value, err)
	}
	// An administrator opens it.
	uninstallAtEnd(t, cluster)
	env.Must(t, cluster.Client.Create(t.Context(), env.EFS(operatorv1.Removed)))
	env.Eventually(t, "open", func() error { return try(t, cluster, bare.Name) })
	env.Must(t, annotate(cluster, env.EFS(""), efs.UnlistedAnnotation, "Deny"))
	env.Eventually(t, "closed", func() error { return denied(try(t, cluster, bare.Name)) })
	// While an operator runs.
	unshare(t, cluster, sv)
}

// absent checks that the ClusterCSIDriver does not have a condition.
func absent(ctx context.Context, cluster *env.Cluster, kind string) error {
	cr := env.EFS("")
	if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(cr), cr); err != nil {
		return err
	}
	if text := message(cr, kind); text != "" {
		return fmt.Errorf("condition %s is there: %s", kind, text)
	}
	return nil
}

// Another Subscription makes OLM put the community's CRD back.
func anOlderCRDIsReportedAndLivedWith(t *testing.T, cluster *env.Cluster, operator *env.Operator) {
	root, err := env.Root()
	env.Must(t, err)
	sv := share(t, cluster, "default", "sv1")
	env.Eventually(t, "Ready", func() error { return cluster.Ready(t.Context(), sv) })
	_, err = cluster.Kubectl(t.Context(), "replace", "-f", filepath.Join(root, "config", "manifests", "stored", "sharedvolumes.yaml"))
	env.Must(t, err)
	t.Cleanup(func() {
		if err := cluster.InstallManifests(context.Background()); err != nil {
			t.Error(err)
		}
	})
	env.Eventually(t, "reported", func() error { return cluster.Condition(t.Context(), outdatedCondition, operatorv1.ConditionTrue) })
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	later := share(t, cluster, "default", "sv2")
	env.Eventually(t, "what the CRD has of the status", func() error {
		if err := cluster.Phase(t.Context(), later, v1alpha1.Ready); err != nil {
			return err
		}
		if later.Status.ClaimRef.Name != "pvc-sv2" || len(later.Status.Conditions) > 0 {
			return fmt.Errorf("%+v", later.Status)
		}
		return nil
	})
	env.Quiet(t, operator)
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	failed := env.Filter(requests, func(r env.Request) bool {
		return r.Object.Resource == "sharedvolumes" && r.IsWrite() && r.Response.Code >= 400
	})
	if len(failed) > 0 {
		t.Errorf("writes that the CRD does not take:\n%s", env.Describe(failed))
	}
	env.Must(t, cluster.InstallManifests(t.Context()))
	for _, one := range []*v1alpha1.SharedVolume{sv, later} {
		env.Eventually(t, "Ready, with conditions", func() error {
			if err := cluster.Ready(t.Context(), one); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(one.Status.Conditions, "Ready") || !strings.HasPrefix(one.Status.VolumeName, "pv-default-") {
				return fmt.Errorf("%+v", one.Status)
			}
			return nil
		})
	}
	env.Eventually(t, "not reported any more", func() error { return absent(t.Context(), cluster, outdatedCondition) })
}
