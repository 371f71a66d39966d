package clustercsidriver

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/cloudcredential/v1"
	"github.com/csi-operators/csi-operators/internal/driver"
)

// Each case says what is there of credentials, and which conditions about them differ from those of credentials that work.
func TestCredentialsInEveryState(t *testing.T) {
	const request, nodeRequest = "disk-request", "disk-node-request"
	type change func(o *outcome, c *conditioner)
	without := func(secrets ...string) change {
		return func(o *outcome, _ *conditioner) {
			for _, name := range secrets {
				delete(o.seen.live.secrets, name)
			}
		}
	}
	manual := func(o *outcome) { o.seen.config.CredentialsMode = operatorv1.CloudCredentialsModeManual }
	for name, tc := range map[string]struct {
		change change
		want   map[string]string
	}{
		"a Secret with other keys": {func(o *outcome, _ *conditioner) {
			o.seen.live.secrets["disk-keys"] = foundSecret{hash: "a", keys: []string{"id", "token"}}
		}, map[string]string{
			"KeysAvailable":   "False SecretUnusable: Secret storage-system/disk-keys has keys [id token], but needs key credentials, or keys id and key",
			"KeysProgressing": "False SecretUnusable",
		}},
		"an optional Secret with other keys": {func(o *outcome, _ *conditioner) {
			o.seen.live.secrets["disk-node-keys"] = foundSecret{hash: "a", keys: []string{"id"}}
		}, map[string]string{
			"NodeKeysAvailable":   "True SecretUnusable: Secret storage-system/disk-node-keys has keys [id], but needs key credentials",
			"NodeKeysProgressing": "False SecretUnusable",
		}},
		"a request that nobody has followed yet": {func(o *outcome, _ *conditioner) {
			o.seen.live.requests[request].Status = cloudcredentialv1.CredentialsRequestStatus{}
			delete(o.seen.live.secrets, "disk-keys")
		}, map[string]string{
			"KeysAvailable": "False CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to make Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
			"KeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to make Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
		}},
		"a request that can't be followed": {func(o *outcome, _ *conditioner) {
			o.seen.live.requests[request].Status = cloudcredentialv1.CredentialsRequestStatus{Conditions: []cloudcredentialv1.CredentialsRequestCondition{
				{Type: "InsufficientCloudCreds", Status: corev1.ConditionTrue, Message: "root keys may not"},
				{Type: "Ignored", Status: corev1.ConditionFalse, Message: "no"},
				{Type: "CredentialsProvisionFailure", Status: corev1.ConditionTrue, Message: "no user"},
			}}
		}, map[string]string{
			"KeysAvailable": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to make Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request; InsufficientCloudCreds: root keys may not; " +
				"CredentialsProvisionFailure: no user",
			"KeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to make Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request; InsufficientCloudCreds: root keys may not; " +
				"CredentialsProvisionFailure: no user",
		}},
		"a request that was changed": {func(o *outcome, _ *conditioner) { o.seen.live.requests[request].Generation = 2 }, map[string]string{
			"KeysAvailable": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to make Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
			"KeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to make Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
		}},
		"a request that is not made yet": {func(o *outcome, _ *conditioner) { delete(o.seen.live.requests, request) }, map[string]string{
			"KeysAvailable": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to make Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
			"KeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to make Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
		}},
		"an optional request that nobody has followed yet": {func(o *outcome, _ *conditioner) {
			delete(o.seen.live.requests, nodeRequest)
			delete(o.seen.live.secrets, "disk-node-keys")
		}, map[string]string{
			"NodeKeysAvailable": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to make Secret disk-node-keys " +
				"for CredentialsRequest openshift-cloud-credential-operator/disk-node-request",
			"NodeKeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to make Secret disk-node-keys " +
				"for CredentialsRequest openshift-cloud-credential-operator/disk-node-request",
		}},
		"Secrets that have gone": {without("disk-keys", "disk-node-keys"), map[string]string{
			"KeysAvailable": "False SecretMissing: mint mode: Secret storage-system/disk-keys has gone, waiting for the cloud-credential-operator " +
				"to make it again",
			"KeysProgressing": "True SecretMissing: mint mode: Secret storage-system/disk-keys has gone, waiting for the cloud-credential-operator to " +
				"make it again",
			"NodeKeysAvailable": "True SecretMissing: mint mode: Secret storage-system/disk-node-keys has gone, waiting for the " +
				"cloud-credential-operator to make it again",
			"NodeKeysProgressing": "True SecretMissing: mint mode: Secret storage-system/disk-node-keys has gone, waiting for the " +
				"cloud-credential-operator to make it again",
		}},
		"manual mode": {func(o *outcome, c *conditioner) {
			manual(o)
			without("disk-keys", "disk-node-keys")(o, c)
		}, map[string]string{
			"KeysAvailable": "False SecretMissing: manual mode: Secret storage-system/disk-keys is missing and nobody is asked for it; the " +
				"controller pods are not started without it. Make it with key credentials, or keys id and key, or set ROLEARN to an " +
				"IAM role in the operator's environment; \"disk-operator iam-policy controller\" prints the IAM policy",
			"KeysProgressing": "False SecretMissing",
			"NodeKeysAvailable": "True CredentialsDisabled: manual mode: Secret storage-system/disk-node-keys is missing and nobody is asked for it; " +
				"the driver works without it, except for One Zone volumes in another zone. Make it with key credentials, or set " +
				"NODE_ROLEARN to an IAM role in the operator's environment; \"disk-operator iam-policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsDisabled",
		}},
		"manual mode with Secrets": {func(o *outcome, _ *conditioner) { manual(o) }, map[string]string{
			"KeysAvailable":     "True AsExpected: manual mode: Secret storage-system/disk-keys is there",
			"NodeKeysAvailable": "True AsExpected: manual mode: Secret storage-system/disk-node-keys is there",
		}},
		"manual mode with roles": {func(o *outcome, c *conditioner) {
			manual(o)
			o.seen.config.RoleARNs = map[string]string{"ROLEARN": "arn:aws:iam::1:role/a", "NODE_ROLEARN": "arn:aws:iam::1:role/b"}
			without("disk-node-keys")(o, c)
		}, map[string]string{
			"KeysAvailable": "True AsExpected: STS with role arn:aws:iam::1:role/a: Secret storage-system/disk-keys is there",
			"NodeKeysAvailable": "True SecretMissing: STS with role arn:aws:iam::1:role/b: Secret storage-system/disk-node-keys has gone, waiting for " +
				"the cloud-credential-operator to make it again",
			"NodeKeysProgressing": "True SecretMissing: STS with role arn:aws:iam::1:role/b: Secret storage-system/disk-node-keys has gone, waiting for " +
				"the cloud-credential-operator to make it again",
		}},
		"passthrough mode": {func(o *outcome, c *conditioner) {
			o.seen.config.CredentialsMode = operatorv1.CloudCredentialsModePassthrough
			without("disk-node-keys")(o, c)
		}, map[string]string{
			"KeysAvailable": "True AsExpected: passthrough mode: Secret storage-system/disk-keys is there",
			"NodeKeysAvailable": "True CredentialsDisabled: passthrough mode: Secret storage-system/disk-node-keys is missing and nobody is asked for " +
				"it; the driver works without it, except for One Zone volumes in another zone. Make it with key credentials, or set " +
				"NODE_ROLEARN to an IAM role in the operator's environment; \"disk-operator iam-policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsDisabled",
		}},
		"default mode, of which nothing is known": {func(o *outcome, c *conditioner) {
			o.seen.config.CredentialsMode = operatorv1.CloudCredentialsModeDefault
			without("disk-node-keys")(o, c)
		}, map[string]string{
			"KeysAvailable": "True AsExpected: default mode (mint or passthrough, as the cluster's own keys allow): Secret storage-system/disk-keys is there",
			"NodeKeysAvailable": "True CredentialsDisabled: default mode (mint or passthrough, as the cluster's own keys allow): Secret " +
				"storage-system/disk-node-keys is missing and nobody is asked for it; the driver works without it, except for One Zone " +
				"volumes in another zone. Make it with key credentials, or set NODE_ROLEARN to an IAM role in the operator's " +
				"environment; \"disk-operator iam-policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsDisabled",
		}},
		"default mode that mints": {func(o *outcome, _ *conditioner) {
			o.seen.config.CredentialsMode, o.seen.config.Minting = operatorv1.CloudCredentialsModeDefault, driver.Mints
		}, map[string]string{
			"KeysAvailable": "True AsExpected: default mode (the cloud-credential-operator makes keys for each request): Secret " +
				"storage-system/disk-keys is there",
			"NodeKeysAvailable": "True AsExpected: default mode (the cloud-credential-operator makes keys for each request): Secret " +
				"storage-system/disk-node-keys is there",
		}},
		"default mode that passes the cluster's keys through": {func(o *outcome, c *conditioner) {
			o.seen.config.CredentialsMode, o.seen.config.Minting = operatorv1.CloudCredentialsModeDefault, driver.PassesThrough
			without("disk-node-keys")(o, c)
		}, map[string]string{
			"KeysAvailable": "True AsExpected: default mode (the cloud-credential-operator passes the cluster's own keys through): Secret " +
				"storage-system/disk-keys is there",
			"NodeKeysAvailable": "True CredentialsDisabled: default mode (the cloud-credential-operator passes the cluster's own keys through): Secret " +
				"storage-system/disk-node-keys is missing and nobody is asked for it; the driver works without it, except for One Zone " +
				"volumes in another zone. Make it with key credentials, or set NODE_ROLEARN to an IAM role in the operator's " +
				"environment; \"disk-operator iam-policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsDisabled",
		}},
		"the cluster's own keys for the nodes": {func(o *outcome, _ *conditioner) {
			o.seen.config.CredentialsMode, o.seen.config.Minting = operatorv1.CloudCredentialsModeDefault, driver.PassesThrough
			o.seen.live.secrets["disk-node-keys"] = foundSecret{hash: "a", keys: []string{"credentials"}, passedThrough: true}
		}, map[string]string{
			"KeysAvailable": "True AsExpected: default mode (the cloud-credential-operator passes the cluster's own keys through): Secret " +
				"storage-system/disk-keys is there",
			"NodeKeysAvailable": "True CredentialsPassedThrough: default mode (the cloud-credential-operator passes the cluster's own keys through): " +
				"Secret storage-system/disk-node-keys holds a copy of the cluster's own keys, as its empty annotation " +
				"cloudcredential.openshift.io/aws-policy-last-applied shows; the node pods never get it. Delete it where the " +
				"cloud-credential-operator can make keys, else make it with keys of its own, or set NODE_ROLEARN to an IAM role in the " +
				"operator's environment; \"disk-operator iam-policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsPassedThrough",
		}},
		"no cloud-credential-operator": {func(o *outcome, c *conditioner) {
			o.seen.config.Kinds = nil
			without("disk-keys", "disk-node-keys")(o, c)
		}, map[string]string{
			"KeysAvailable": "False SecretMissing: no cloud-credential-operator: Secret storage-system/disk-keys is missing and nobody is asked for " +
				"it; the controller pods are not started without it. Make it with key credentials, or keys id and key; \"disk-operator " +
				"iam-policy controller\" prints the IAM policy",
			"KeysProgressing": "False SecretMissing",
			"NodeKeysAvailable": "True CredentialsDisabled: no cloud-credential-operator: Secret storage-system/disk-node-keys is missing and nobody is " +
				"asked for it; the driver works without it, except for One Zone volumes in another zone. Make it with key credentials; " +
				"\"disk-operator iam-policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsDisabled",
		}},
		"credentials of the payload": {func(o *outcome, c *conditioner) {
			o.seen.config.CredentialsMode = operatorv1.CloudCredentialsModeDefault
			c.driver.Credentials[0].Payload = true
			without("disk-keys")(o, c)
		}, map[string]string{
			"KeysAvailable": "False SecretMissing: default mode: Secret storage-system/disk-keys is missing; the controller pods are not started " +
				"without it. CredentialsRequest openshift-cloud-credential-operator/disk-request, which comes with the release, asks " +
				"the cloud-credential-operator for it: look at its conditions. In manual mode nobody does: make the Secret with " +
				"ccoctl, or by hand with key credentials, or keys id and key",
			"KeysProgressing": "False SecretMissing",
			"NodeKeysAvailable": "True AsExpected: default mode (mint or passthrough, as the cluster's own keys allow): Secret " +
				"storage-system/disk-node-keys is there",
		}},
		"credentials of the payload in mint mode": {func(_ *outcome, c *conditioner) { c.driver.Credentials[0].Payload = true }, map[string]string{}},
		"a predecessor's driver without a Secret": {func(o *outcome, c *conditioner) {
			o.seen.live.predecessors, o.seen.live.requests = true, nil
			without("disk-keys")(o, c)
		}, map[string]string{
			"KeysAvailable": "False SecretMissing: Secret storage-system/disk-keys is missing; this operator asks for none while " +
				"spec.managementState is Unmanaged",
			"KeysProgressing": "False SecretMissing",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := clocked()
			cr, result := healthy()
			tc.change(&result, &c)
			all, _ := c.credentialConditions(cr, result)
			got := differing(all)
			for kind := range got {
				if got[kind] == "" {
					// It is none about credentials.
					delete(got, kind)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Node pods wait for their Secret as controller pods do, and an administrator looks at those that the message names.
func TestAMissingSecretNamesThePodsThatWait(t *testing.T) {
	c, _ := clocked()
	for _, workload := range []driver.Workload{driver.Controller, driver.Node} {
		credentials := driver.Credentials{
			Secret: "keys", Workload: workload, RoleARNVariable: "ROLE", Request: "r", Keys: [][]string{{"a"}, {"b", "c"}},
		}
		want := "no cloud-credential-operator: Secret storage-system/keys is missing and nobody is asked for it; the " + string(workload) +
			" pods are not started without it. Make it with key a, or keys b and c; \"disk-operator iam-policy " + string(workload) +
			"\" prints the IAM policy"
		if got := c.withoutRequest(driver.Config{}, credentials); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		credentials.Payload = true
		want = "default mode: Secret storage-system/keys is missing; the " + string(workload) + " pods are not started without it. " +
			"CredentialsRequest openshift-cloud-credential-operator/r, which comes with the release, asks the cloud-credential-operator for it: " +
			"look at its conditions. In manual mode nobody does: make the Secret with ccoctl, or by hand with key a, or keys b and c"
		if got := c.withoutRequest(driver.Config{}, credentials); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// It has a condition of its own. In a removal, which has no such condition, that of the other objects tells.
func TestARefusedCredentialsRequestIsReportedOnce(t *testing.T) {
	cr, result := healthy()
	const text = "CredentialsRequest openshift-cloud-credential-operator/disk-request: no such field"
	refused := failed("CredentialsRequest", cloudcredentialv1.Namespace, "disk-request", reconcile.TerminalError(errors.New("no such field")))
	result.changes = append(result.changes, refused)
	c, _ := clocked()
	all, _, _ := c.conditions(cr, result)
	want := map[string]string{"KeysDegraded": "True SyncError: " + text, "Degraded": "True SyncError: Keys: " + text}
	if diff := cmp.Diff(want, differing(all)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	result.removal.removing = true
	all, _, _ = c.conditions(cr, result)
	if got := texts(all)["InsideDegraded"]; got != "True SyncError: "+text {
		t.Errorf("in a removal: %s", got)
	}
}
