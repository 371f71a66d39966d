package e2e

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/test/env"
)

const (
	controllerCredentials = "AWSEFSCredentialsRequestControllerAvailable"
	nodeCredentials       = "AWSEFSNodeCredentialsRequestControllerAvailable"
)

// TestManualModeSaysWhichSecretIsMissingAndWhatToDo also changes the Secret when it is there.
func TestManualModeSaysWhichSecretIsMissingAndWhatToDo(t *testing.T) {
	cluster := clean(t)
	operator := operate(t, cluster)
	manualMode(t, cluster)
	cr := env.EFS(operatorv1.Managed)
	// Not even now may the log hold what Secrets hold.
	cr.Spec.OperatorLogLevel = operatorv1.TraceAll
	env.Must(t, cluster.Client.Create(t.Context(), cr))
	uninstallAtEnd(t, cluster)
	env.Eventually(t, "the missing Secret named", func() error {
		return errors.Join(
			state(t.Context(), cluster, controllerCredentials, "SecretMissing: manual mode: Secret openshift-cluster-csi-drivers/aws-efs-cloud-credentials"),
			state(t.Context(), cluster, controllerCredentials, "oc storage iam policy controller"),
			state(t.Context(), cluster, nodeCredentials, "CredentialsDisabled: manual mode: Secret "+
				"openshift-cluster-csi-drivers/node-aws-efs-cloud-credentials"),
			cluster.Condition(t.Context(), nodeCredentials, operatorv1.ConditionTrue),
			cluster.Condition(t.Context(), "Available", operatorv1.ConditionFalse))
	})
	// Volumes that exist go on to be mounted: the nodes do not need the controller's credentials.
	env.Eventually(t, "the node pods run", func() error {
		return cluster.Condition(t.Context(), "AWSEFSDriverNodeServiceControllerAvailable", operatorv1.ConditionTrue)
	})
	missing, err := operator.Metric(t.Context(), "csi_operator_credentials_missing")
	env.Must(t, err)
	if missing != 1 {
		t.Errorf("csi_operator_credentials_missing is %v, want 1", missing)
	}
	unusable := secret("aws-efs-cloud-credentials")
	delete(unusable.Data, "aws_secret_access_key")
	env.Scene{Cluster: cluster, T: t}.Keep(unusable)
	env.Eventually(t, "the missing key named", func() error {
		return errors.Join(
			state(t.Context(), cluster, controllerCredentials, "SecretUnusable: "),
			state(t.Context(), cluster, controllerCredentials, "has keys [aws_access_key_id], but needs key credentials, or keys aws_access_key_id and "+
				"aws_secret_access_key"))
	})
	env.Must(t, rotate(t, cluster, unusable, "made-up"))
	env.Eventually(t, "driver installed", func() error { return cluster.Settled(t.Context()) })
	env.Must(t, state(t.Context(), cluster, controllerCredentials, "AsExpected: manual mode"))
	// Half a Secret has started nothing.
	settle(t, cluster, operator, rollouts{1, 1})
	changedSecretsRestartTheirPodsOnce(t, cluster, operator, unusable)
	for _, hidden := range []string{"made-up", "another-key", "AKIAEXAMPLE"} {
		for _, form := range []string{hidden, base64.StdEncoding.EncodeToString([]byte(hidden)), hex.EncodeToString([]byte(hidden))} {
			if strings.Contains(operator.Output(), form) {
				t.Errorf("the log holds what the Secret holds: %s", form)
			}
		}
	}
	if !strings.Contains(operator.Output(), `verb="PATCH"`) {
		t.Error("the log level has no effect, so that this shows nothing")
	}
}

func TestRolesReachTheCredentialsRequestsAndThePodsStartOnce(t *testing.T) {
	const controllerRole, nodeRole = "arn:aws:iam::123456789012:role/controller", "arn:aws:iam::123456789012:role/node"
	for name, tc := range map[string]struct {
		environment []string
		// roles are those of the CredentialsRequests that are made.
		roles map[string]string
	}{
		"the controller's role alone": {
			[]string{"ROLEARN=" + controllerRole}, map[string]string{"openshift-aws-efs-csi-driver": controllerRole},
		},
		"both roles": {
			[]string{"ROLEARN=" + controllerRole, "NODE_ROLEARN=" + nodeRole},
			map[string]string{"openshift-aws-efs-csi-driver": controllerRole, "openshift-aws-efs-csi-driver-node": nodeRole},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if len(tc.roles) == 1 {
				// Golden files have both.
				env.OnlySoak(t)
			}
			cluster := clean(t)
			tokenMode(t, cluster)
			operator := operateWith(t, cluster, tc.environment...)
			install(t, cluster)
			settle(t, cluster, operator, rollouts{1, 1})
			env.Must(t, state(t.Context(), cluster, controllerCredentials, "STS with role "+controllerRole))
			requests := &cloudcredentialv1.CredentialsRequestList{}
			env.Must(t, cluster.Client.List(t.Context(), requests))
			got := map[string]string{}
			for _, request := range requests.Items {
				got[request.Name] = request.Spec.ProviderSpec.STSIAMRoleARN
				if request.Spec.CloudTokenPath != "/var/run/secrets/openshift/serviceaccount/token" {
					t.Errorf("%s: token path %q", request.Name, request.Spec.CloudTokenPath)
				}
			}
			if diff := cmp.Diff(tc.roles, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			_, daemonSet := workloads(t, cluster)
			hash := daemonSet.Spec.Template.Annotations["operator.openshift.io/hash-of-node-aws-efs-cloud-credentials"]
			if (hash != "") != (len(tc.roles) == 2) {
				t.Errorf("hash of the nodes' Secret %q with roles %v", hash, tc.roles)
			}
		})
	}
}

func TestPassthroughModeGivesTheNodesNothing(t *testing.T) {
	cluster := clean(t)
	operator := operate(t, cluster)
	credentialsMode(t, cluster, operatorv1.CloudCredentialsModePassthrough)
	install(t, cluster)
	env.Must(t, state(t.Context(), cluster, controllerCredentials, "passthrough mode"))
	env.Must(t, state(t.Context(), cluster, nodeCredentials, "CredentialsDisabled: passthrough mode"))
	request := &cloudcredentialv1.CredentialsRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: cloudcredentialv1.Namespace, Name: "openshift-aws-efs-csi-driver-node",
	}}
	env.Must(t, cluster.Gone(t.Context(), request))
	// From here on nodes may have credentials of their own; their pods are started once more with them.
	start := generations(t, cluster)
	leftOf(t, cluster, allObjects-1)
	credentialsMode(t, cluster, operatorv1.CloudCredentialsModeMint)
	settle(t, cluster, operator, rollouts{start.controller, start.nodes + 1})
	daemonSet := &appsv1.DaemonSet{}
	env.Must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: env.OperatorNamespace, Name: "efs-csi-node"}, daemonSet))
	if daemonSet.Spec.Template.Annotations["operator.openshift.io/hash-of-node-aws-efs-cloud-credentials"] == "" {
		t.Errorf("annotations %v", daemonSet.Spec.Template.Annotations)
	}
}

// In default mode the cloud-credential-operator copies the administrator's keys where they can't make others. They must not get to the
// privileged pods of all nodes, whatever asks for them.
func TestNodesNeverGetTheKeysOfTheAdministrator(t *testing.T) {
	cluster := clean(t)
	env.Scene{Cluster: cluster, T: t}.Keep(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "aws-creds", Annotations: map[string]string{"cloudcredential.openshift.io/mode": "passthrough"},
	}})
	credentialsMode(t, cluster, operatorv1.CloudCredentialsModeDefault)
	mark, err := cluster.Audit.Now()
	env.Must(t, err)
	operator := operate(t, cluster)
	install(t, cluster)
	settle(t, cluster, operator, rollouts{1, 1})
	env.Must(t, state(t.Context(), cluster, nodeCredentials, "CredentialsDisabled: default mode (the cloud-credential-operator passes the cluster's "+
		"own keys through)"))
	const node = "openshift-aws-efs-csi-driver-node"
	requests, err := cluster.Audit.Since(mark, env.OperatorUser)
	env.Must(t, err)
	for _, request := range requests {
		if request.Object.Name == node && request.IsWrite() && request.Response.Code < http.StatusMultipleChoices {
			t.Errorf("nobody may ask for the nodes: %s", request)
		}
	}
	// An operator before this one has asked all the same.
	passedThrough := secret("node-aws-efs-cloud-credentials")
	passedThrough.Annotations = map[string]string{
		"cloudcredential.openshift.io/credentials-request":     cloudcredentialv1.Namespace + "/" + node,
		"cloudcredential.openshift.io/aws-policy-last-applied": "",
	}
	env.Scene{Cluster: cluster, T: t}.Keep(passedThrough)
	env.Eventually(t, "the condition names the Secret", func() error {
		return state(t.Context(), cluster, nodeCredentials, "CredentialsPassedThrough: default mode")
	})
	settle(t, cluster, operator, rollouts{1, 1})
	_, daemonSet := workloads(t, cluster)
	if text := fmt.Sprint(daemonSet.Spec.Template); strings.Contains(text, "node-aws-efs-cloud-credentials") {
		t.Errorf("the node pods have the Secret:\n%s", text)
	}
}

func TestNodesGetKeysOfTheirOwnInADefaultModeThatMints(t *testing.T) {
	cluster := clean(t)
	credentialsMode(t, cluster, operatorv1.CloudCredentialsModeDefault)
	operator := operate(t, cluster)
	install(t, cluster)
	settle(t, cluster, operator, rollouts{1, 1})
	env.Must(t, state(t.Context(), cluster, nodeCredentials, "AsExpected: default mode (the cloud-credential-operator creates keys for each request)"))
	_, daemonSet := workloads(t, cluster)
	if text := fmt.Sprint(daemonSet.Spec.Template); strings.Count(text, "node-aws-efs-cloud-credentials") != 4 {
		t.Errorf("the node pods have the Secret neither as files nor as variables, or without its hash:\n%s", text)
	}
}
