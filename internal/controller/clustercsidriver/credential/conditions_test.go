package credential

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	cloudcredentialv1 "github.com/csi-operators/csi-operators/internal/kube/cloudcredential/v1"
)

// Each case says what is there of credentials, and which conditions about them differ from those of credentials that work.
func TestCredentialsInEveryState(t *testing.T) {
	const request, nodeRequest = "disk-request", "disk-node-request"
	type change func(c *scene)
	without := func(secrets ...string) change {
		return func(c *scene) {
			for _, name := range secrets {
				delete(c.found.Secrets, name)
			}
		}
	}
	fail := func(c *scene, name string) {
		c.found.Requests[name].Status = cloudcredentialv1.CredentialsRequestStatus{Conditions: []cloudcredentialv1.CredentialsRequestCondition{
			{Type: "Ignored", Status: corev1.ConditionFalse, Message: "no"},
			{Type: "CredentialsProvisionFailure", Status: corev1.ConditionTrue, Message: "no user"},
		}}
	}
	manual := func(c *scene) { c.cfg.CredentialsMode = operatorv1.CloudCredentialsModeManual }
	for name, tc := range map[string]struct {
		change change
		want   map[string]string
	}{
		"a Secret with other keys": {func(c *scene) {
			c.found.Secrets["disk-keys"] = Secret{Hash: "a", Keys: []string{"id", "token"}}
		}, map[string]string{
			"KeysAvailable":   "False SecretUnusable: Secret storage-system/disk-keys has keys [id token], but needs key credentials, or keys id and key",
			"KeysProgressing": "False SecretUnusable",
		}},
		"an optional Secret with other keys": {func(c *scene) {
			c.found.Secrets["disk-node-keys"] = Secret{Hash: "a", Keys: []string{"id"}}
		}, map[string]string{
			"NodeKeysAvailable":   "True SecretUnusable: Secret storage-system/disk-node-keys has keys [id], but needs key credentials",
			"NodeKeysProgressing": "False SecretUnusable",
		}},
		"a request that nobody has followed yet": {func(c *scene) {
			c.found.Requests[request].Status = cloudcredentialv1.CredentialsRequestStatus{}
			delete(c.found.Secrets, "disk-keys")
		}, map[string]string{
			"KeysAvailable": "False CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
			"KeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
		}},
		"a request that can't be followed": {func(c *scene) {
			fail(c, request)
			delete(c.found.Secrets, "disk-keys")
		}, map[string]string{
			"KeysAvailable": "False CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request; CredentialsProvisionFailure: no user",
			"KeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request; CredentialsProvisionFailure: no user",
		}},
		"a Secret made for the request, which can't be followed now": {func(c *scene) {
			fail(c, request)
			c.found.Secrets["disk-keys"] = Secret{Hash: "a", Keys: []string{"credentials"}, Request: "openshift-cloud-credential-operator/disk-request"}
		}, map[string]string{
			"KeysAvailable": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request; CredentialsProvisionFailure: no user",
			"KeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request; CredentialsProvisionFailure: no user",
		}},
		"a Secret made by hand, beside which the request can't be followed": {func(c *scene) { fail(c, request) }, map[string]string{
			"KeysAvailable": "True ActionRequired: mint mode: Secret storage-system/disk-keys exists, but the cloud-credential-operator did not create it, and can't " +
				"create its own for CredentialsRequest openshift-cloud-credential-operator/disk-request. If the cloud-credential-operator may create users in the cloud, delete the existing Secret: the cloud-credential-operator then creates its own. Otherwise keep the Secret, which the driver can use, and fix the error that the CredentialsRequest reports; " +
				"CredentialsProvisionFailure: no user",
			"KeysProgressing": "False ActionRequired",
		}},
		"a Secret made by hand, where the cloud-credential-operator can make none": {func(c *scene) {
			fail(c, request)
			c.found.Requests[request].Status.Conditions[1] = cloudcredentialv1.CredentialsRequestCondition{
				Type: "InsufficientCloudCreds", Status: corev1.ConditionTrue, Message: "root keys may not",
			}
		}, map[string]string{
			"KeysAvailable": "True CredentialsNotMinted: mint mode: Secret storage-system/disk-keys exists, but the cloud-credential-operator did not " +
				"create it. Keep the Secret: the cloud-credential-operator has no cloud credentials to create its own; " +
				"InsufficientCloudCreds: root keys may not",
			"KeysProgressing": "False CredentialsNotMinted",
		}},
		"an optional Secret made by hand, beside which the request can't be followed": {func(c *scene) { fail(c, nodeRequest) }, map[string]string{
			"NodeKeysAvailable": "True ActionRequired: mint mode: Secret storage-system/disk-node-keys exists, but the cloud-credential-operator did not create it, and can't " +
				"create its own for CredentialsRequest openshift-cloud-credential-operator/disk-node-request. If the cloud-credential-operator may create users in the cloud, delete the existing Secret: the cloud-credential-operator then creates its own. Otherwise keep the Secret, which the driver can use, and fix the error that the CredentialsRequest reports; " +
				"CredentialsProvisionFailure: no user",
			"NodeKeysProgressing": "False ActionRequired",
		}},
		"a request that was changed": {func(c *scene) { c.found.Requests[request].Generation = 2 }, map[string]string{
			"KeysAvailable": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
			"KeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
		}},
		"a request that is not made yet": {func(c *scene) { delete(c.found.Requests, request) }, map[string]string{
			"KeysAvailable": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
			"KeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request",
		}},
		"an optional request that nobody has followed yet": {func(c *scene) {
			delete(c.found.Requests, nodeRequest)
			delete(c.found.Secrets, "disk-node-keys")
		}, map[string]string{
			"NodeKeysAvailable": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-node-keys " +
				"for CredentialsRequest openshift-cloud-credential-operator/disk-node-request",
			"NodeKeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-node-keys " +
				"for CredentialsRequest openshift-cloud-credential-operator/disk-node-request",
		}},
		"Secrets that have gone": {without("disk-keys", "disk-node-keys"), map[string]string{
			"KeysAvailable": "False SecretMissing: mint mode: Secret storage-system/disk-keys is missing, waiting for the cloud-credential-operator to " +
				"recreate it",
			"KeysProgressing": "True SecretMissing: mint mode: Secret storage-system/disk-keys is missing, waiting for the cloud-credential-operator to " +
				"recreate it",
			"NodeKeysAvailable": "True SecretMissing: mint mode: Secret storage-system/disk-node-keys is missing, waiting for the cloud-credential-operator " +
				"to recreate it",
			"NodeKeysProgressing": "True SecretMissing: mint mode: Secret storage-system/disk-node-keys is missing, waiting for the cloud-credential-operator to recreate it",
		}},
		"manual mode": {func(c *scene) {
			manual(c)
			without("disk-keys", "disk-node-keys")(c)
		}, map[string]string{
			"KeysAvailable":   "False SecretMissing: manual mode: Secret storage-system/disk-keys is missing and no CredentialsRequest asks for it; the controller pods don't start without it. Create it with key credentials, or keys id and key, or set ROLEARN to an IAM role in the operator's environment; \"oc storage iam policy controller\" prints the IAM policy",
			"KeysProgressing": "False SecretMissing",
			"NodeKeysAvailable": "True CredentialsDisabled: manual mode: Secret storage-system/disk-node-keys is missing and no CredentialsRequest asks for " +
				"it; the driver works without it, except for One Zone volumes in another zone. Create it with key credentials, or set NODE_ROLEARN to an IAM role in the operator's environment; \"oc storage iam policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsDisabled",
		}},
		"manual mode with Secrets": {func(c *scene) { manual(c) }, map[string]string{
			"KeysAvailable":     "True AsExpected: manual mode: Secret storage-system/disk-keys is there",
			"NodeKeysAvailable": "True AsExpected: manual mode: Secret storage-system/disk-node-keys is there",
		}},
		"a setting that a Secret of two keys can't serve": {func(c *scene) {
			manual(c)
			c.found.Secrets["disk-keys"] = Secret{Hash: "a", Keys: []string{"id", "key"}}
			c.driver.Credentials[0].FileSetting, c.driver.Credentials[1].FileSetting = "DELETE_DIRECTORIES", "NODE_IAM"
			c.cfg.Settings = map[string]string{"DELETE_DIRECTORIES": "true", "NODE_IAM": "true"}
		}, map[string]string{
			"KeysAvailable": "True CredentialsFileMissing: manual mode: Secret storage-system/disk-keys lacks key credentials, and the mount helper reads credentials only from the file in this key. So DELETE_DIRECTORIES=true has no effect, and the controller pods mount with the IAM role of their EC2 instance. Add the key with " +
				"an AWS configuration file to the Secret, or set ROLEARN to an IAM role in the operator's environment",
			"KeysProgressing":   "False CredentialsFileMissing",
			"NodeKeysAvailable": "True AsExpected: manual mode: Secret storage-system/disk-node-keys is there",
		}},
		"a role beside a Secret of two keys": {func(c *scene) {
			manual(c)
			c.found.Secrets["disk-keys"] = Secret{Hash: "a", Keys: []string{"id", "key"}}
			c.driver.Credentials[0].FileSetting = "DELETE_DIRECTORIES"
			c.cfg.Settings, c.cfg.RoleARNs = map[string]string{"DELETE_DIRECTORIES": "true"}, map[string]string{"ROLEARN": "arn:aws:iam::1:role/a"}
			c.found.Requests[request].Status.Provisioned = true
		}, map[string]string{"KeysAvailable": "True AsExpected: STS with role arn:aws:iam::1:role/a: Secret storage-system/disk-keys is there",
			"NodeKeysAvailable": "True AsExpected: manual mode: Secret storage-system/disk-node-keys is there"}},
		"manual mode with roles": {func(c *scene) {
			manual(c)
			c.cfg.RoleARNs = map[string]string{"ROLEARN": "arn:aws:iam::1:role/a", "NODE_ROLEARN": "arn:aws:iam::1:role/b"}
			without("disk-node-keys")(c)
		}, map[string]string{
			"KeysAvailable":       "True AsExpected: STS with role arn:aws:iam::1:role/a: Secret storage-system/disk-keys is there",
			"NodeKeysAvailable":   "True SecretMissing: STS with role arn:aws:iam::1:role/b: Secret storage-system/disk-node-keys is missing, waiting for the cloud-credential-operator to recreate it",
			"NodeKeysProgressing": "True SecretMissing: STS with role arn:aws:iam::1:role/b: Secret storage-system/disk-node-keys is missing, waiting for the cloud-credential-operator to recreate it",
		}},
		"passthrough mode": {func(c *scene) {
			c.cfg.CredentialsMode = operatorv1.CloudCredentialsModePassthrough
			without("disk-node-keys")(c)
		}, map[string]string{
			"KeysAvailable": "True AsExpected: passthrough mode: Secret storage-system/disk-keys is there",
			"NodeKeysAvailable": "True CredentialsDisabled: passthrough mode: Secret storage-system/disk-node-keys is missing and no CredentialsRequest " +
				"asks for it; the driver works without it, except for One Zone volumes in another zone. Create it with key credentials, or set NODE_ROLEARN to an IAM role in the operator's environment; \"oc storage iam policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsDisabled",
		}},
		"default mode, of which nothing is known": {func(c *scene) {
			c.cfg.CredentialsMode = operatorv1.CloudCredentialsModeDefault
			without("disk-node-keys")(c)
		}, map[string]string{
			"KeysAvailable":       "True AsExpected: default mode (mint or passthrough, as the cluster's own keys allow): Secret storage-system/disk-keys is there",
			"NodeKeysAvailable":   "True CredentialsDisabled: default mode (mint or passthrough, as the cluster's own keys allow): Secret storage-system/disk-node-keys is missing and no CredentialsRequest asks for it; the driver works without it, except for One Zone volumes in another zone. Create it with key credentials, or set NODE_ROLEARN to an IAM role in the operator's environment; \"oc storage iam policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsDisabled",
		}},
		"default mode that mints": {func(c *scene) {
			c.cfg.CredentialsMode, c.cfg.Minting = operatorv1.CloudCredentialsModeDefault, driver.Mints
		}, map[string]string{
			"KeysAvailable":     "True AsExpected: default mode (the cloud-credential-operator creates keys for each request): Secret storage-system/disk-keys is there",
			"NodeKeysAvailable": "True AsExpected: default mode (the cloud-credential-operator creates keys for each request): Secret storage-system/disk-node-keys is there",
		}},
		"default mode that passes the cluster's keys through": {func(c *scene) {
			c.cfg.CredentialsMode, c.cfg.Minting = operatorv1.CloudCredentialsModeDefault, driver.PassesThrough
			without("disk-node-keys")(c)
		}, map[string]string{
			"KeysAvailable":       "True AsExpected: default mode (the cloud-credential-operator passes the cluster's own keys through): Secret storage-system/disk-keys is there",
			"NodeKeysAvailable":   "True CredentialsDisabled: default mode (the cloud-credential-operator passes the cluster's own keys through): Secret storage-system/disk-node-keys is missing and no CredentialsRequest asks for it; the driver works without it, except for One Zone volumes in another zone. Create it with key credentials, or set NODE_ROLEARN to an IAM role in the operator's environment; \"oc storage iam policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsDisabled",
		}},
		"the cluster's own keys for the nodes": {func(c *scene) {
			c.cfg.CredentialsMode, c.cfg.Minting = operatorv1.CloudCredentialsModeDefault, driver.PassesThrough
			c.found.Secrets["disk-node-keys"] = Secret{Hash: "a", Keys: []string{"credentials"}, PassedThrough: true}
		}, map[string]string{
			"KeysAvailable": "True AsExpected: default mode (the cloud-credential-operator passes the cluster's own keys through): Secret storage-system/disk-keys is there",
			"NodeKeysAvailable": "True CredentialsPassedThrough: default mode (the cloud-credential-operator passes the cluster's own keys through): Secret storage-system/disk-node-keys holds a copy of the cluster's own keys, as its empty annotation " +
				"cloudcredential.openshift.io/aws-policy-last-applied shows. The operator does not give this Secret to the node pods, and immediately replaces pods that already have it. " +
				"If the cloud-credential-operator can create keys, delete the Secret. Otherwise replace its keys by keys for this driver alone, or set variable NODE_ROLEARN of the operator to the ARN of an IAM role; \"oc storage iam policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsPassedThrough",
		}},
		"no cloud-credential-operator": {func(c *scene) {
			c.cfg.Kinds = nil
			without("disk-keys", "disk-node-keys")(c)
		}, map[string]string{
			"KeysAvailable": "False SecretMissing: no cloud-credential-operator: Secret storage-system/disk-keys is missing and no CredentialsRequest asks " +
				"for it; the controller pods don't start without it. Create it with key credentials, or keys id and key; \"oc storage iam policy controller\" prints the IAM policy",
			"KeysProgressing": "False SecretMissing",
			"NodeKeysAvailable": "True CredentialsDisabled: no cloud-credential-operator: Secret storage-system/disk-node-keys is missing and no " +
				"CredentialsRequest asks for it; the driver works without it, except for One Zone volumes in another zone. Create it with key credentials; " +
				"\"oc storage iam policy node\" prints the IAM policy",
			"NodeKeysProgressing": "False CredentialsDisabled",
		}},
		"credentials of the payload, without its request": {func(c *scene) {
			c.cfg.CredentialsMode = operatorv1.CloudCredentialsModeDefault
			c.driver.Credentials[0].Payload = true
			delete(c.found.Requests, request)
			without("disk-keys")(c)
		}, map[string]string{
			"KeysAvailable":     "False SecretMissing: default mode: Secret storage-system/disk-keys is missing; the controller pods don't start without it. CredentialsRequest openshift-cloud-credential-operator/disk-request, which comes with the release, asks the cloud-credential-operator for it: read the conditions of this CredentialsRequest. In manual mode, create the Secret with ccoctl, or by hand with key credentials, or keys id and key",
			"KeysProgressing":   "False SecretMissing",
			"NodeKeysAvailable": "True AsExpected: default mode (mint or passthrough, as the cluster's own keys allow): Secret storage-system/disk-node-keys is there",
		}},
		"credentials of the payload that have gone": {func(c *scene) {
			c.driver.Credentials[0].Payload = true
			without("disk-keys")(c)
		}, map[string]string{
			"KeysAvailable": "False SecretMissing: mint mode: Secret storage-system/disk-keys is missing, waiting for the cloud-credential-operator to " +
				"recreate it",
			"KeysProgressing": "True SecretMissing: mint mode: Secret storage-system/disk-keys is missing, waiting for the cloud-credential-operator to " +
				"recreate it",
		}},
		"credentials of the payload that can't be made": {func(c *scene) {
			c.driver.Credentials[0].Payload = true
			fail(c, request)
			without("disk-keys")(c)
		}, map[string]string{
			"KeysAvailable": "False CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request; CredentialsProvisionFailure: no user",
			"KeysProgressing": "True CredentialsNotProvisionedYet: mint mode: waiting for the cloud-credential-operator to create Secret disk-keys for " +
				"CredentialsRequest openshift-cloud-credential-operator/disk-request; CredentialsProvisionFailure: no user",
		}},
		"a Secret of the payload made by hand, beside which the request can't be followed": {func(c *scene) {
			c.driver.Credentials[0].Payload = true
			fail(c, request)
		}, map[string]string{
			"KeysAvailable": "True ActionRequired: mint mode: Secret storage-system/disk-keys exists, but the cloud-credential-operator did not create it, and can't " +
				"create its own for CredentialsRequest openshift-cloud-credential-operator/disk-request. If the cloud-credential-operator may create users in the cloud, delete the existing Secret: the cloud-credential-operator then creates its own. Otherwise keep the Secret, which the driver can use, and fix the error that the CredentialsRequest reports; " +
				"CredentialsProvisionFailure: no user",
			"KeysProgressing": "False ActionRequired",
		}},
		"credentials of the payload in manual mode, without a controller for the request": {func(c *scene) {
			manual(c)
			c.driver.Credentials[0].Payload = true
			c.found.Requests[request].Status = cloudcredentialv1.CredentialsRequestStatus{}
		}, map[string]string{
			"KeysAvailable":     "True AsExpected: manual mode: Secret storage-system/disk-keys is there",
			"NodeKeysAvailable": "True AsExpected: manual mode: Secret storage-system/disk-node-keys is there",
		}},
		"credentials of the payload in mint mode": {func(c *scene) { c.driver.Credentials[0].Payload = true }, map[string]string{}},
		"a predecessor's driver without a Secret": {func(c *scene) {
			c.predecessors, c.found.Requests = true, nil
			without("disk-keys")(c)
		}, map[string]string{
			"KeysAvailable": "False SecretMissing: Secret storage-system/disk-keys is missing; this operator does not request it while " +
				"spec.managementState is Unmanaged",
			"KeysProgressing": "False SecretMissing",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := everything()
			tc.change(changed)
			got, usual := changed.texts(), everything().texts()
			for kind := range usual {
				if got[kind] == usual[kind] {
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
	for _, workload := range []driver.Workload{driver.Controller, driver.Node} {
		credentials := driver.Credentials{
			Secret: "keys", Workload: workload, RoleARNVariable: "ROLE", Request: "r", Keys: [][]string{{"a"}, {"b", "c"}},
		}
		want := "Secret storage-system/keys is missing and no CredentialsRequest asks for it; the " + string(workload) +
			" pods don't start without it. Create it with key a, or keys b and c; \"oc storage iam policy " + string(workload) +
			"\" prints the IAM policy"
		if got := withoutRequest(driver.Config{Namespace: here}, credentials); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		credentials.Payload = true
		want = "Secret storage-system/keys is missing; the " + string(workload) + " pods don't start without it. CredentialsRequest openshift-cloud-credential-operator/r, which comes with the release, asks the cloud-credential-operator for it: read the conditions of this CredentialsRequest. In manual mode, create the Secret with ccoctl, or by hand with key a, or keys b and c"
		if got := withoutRequest(driver.Config{Namespace: here}, credentials); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestWhoHasToActIsNamedWhereTheStateDoesNot(t *testing.T) {
	const remedy = ". An administrator has to fix the error of the cloud-credential-operator: oc describe clusteroperator cloud-credential; " +
		"oc -n openshift-cloud-credential-operator describe credentialsrequest disk-request"
	for name, tc := range map[string]struct {
		change func(c *scene)
		want   string
	}{
		"the operator makes none": {func(c *scene) { delete(c.found.Secrets, "disk-keys") }, remedy},
		"it makes none again":     {func(c *scene) { c.found.Requests["disk-request"].Generation = 2 }, remedy},
		"nobody is asked":         {func(c *scene) { c.cfg.Kinds = nil }, ""},
		"other keys":              {func(c *scene) { c.found.Secrets["disk-keys"] = Secret{Hash: "a", Keys: []string{"id"}} }, ""},
		"the payload makes none":  {func(c *scene) { c.driver.Credentials[0].Payload = true }, remedy},
		"the payload has no request": {func(c *scene) {
			c.driver.Credentials[0].Payload = true
			delete(c.found.Requests, "disk-request")
		}, ""},
		"made by hand": {func(c *scene) {
			c.found.Requests["disk-request"].Status = cloudcredentialv1.CredentialsRequestStatus{
				Conditions: []cloudcredentialv1.CredentialsRequestCondition{{Type: "CredentialsProvisionFailure", Status: corev1.ConditionTrue}},
			}
		}, ""},
	} {
		c := everything()
		tc.change(c)
		if got := c.found.Remedy(c.cfg, c.driver.Credentials[0]); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
