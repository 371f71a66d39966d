package aws

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const role = "arn:aws:iam::123456789012:role/efs-csi-controller"

// data returns a Secret's data from keys and values.
func data(pairs ...string) map[string][]byte {
	all := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = []byte(pairs[i+1])
	}
	return all
}

func TestASecretIsReadAsTheDriverReadsIt(t *testing.T) {
	keys := Secret{AccessKeyID: "AKIA1", SecretAccessKey: "se/cr+et="}
	for name, test := range map[string]struct {
		data map[string][]byte
		want Secret
	}{
		"keys":                 {data(keyID, "AKIA1", keySecret, "se/cr+et="), keys},
		"keys with a line end": {data(keyID, "AKIA1\n", keySecret, "se/cr+et=\n"), keys},
		"mint mode has both":   {data(keyID, "AKIA1", keySecret, "se/cr+et=", keyFile, "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = se/cr+et="), keys},
		"the keys are in the driver's environment and count more": {data(keyID, "AKIA1", keySecret, "se/cr+et=", keyFile, "[default]\nrole_arn="+role), keys},
		"one key alone counts no more than for the SDK":           {data(keyID, "AKIA2", keyFile, "[default]\nrole_arn="+role), Secret{RoleARN: role}},
		"keys in the file": {
			data(keyFile, "[default]\r\naws_access_key_id=AKIA1\r\naws_secret_access_key=se/cr+et=\r\naws_session_token = to/ken\r\n"),
			Secret{AccessKeyID: "AKIA1", SecretAccessKey: "se/cr+et=", SessionToken: "to/ken"},
		},
		"STS as ccoctl writes it": {
			data(keyFile, "[default]\nsts_regional_endpoints = regional\nrole_arn = "+role+"\nweb_identity_token_file = /var/run/secrets/openshift/serviceaccount/token\n"),
			Secret{RoleARN: role},
		},
		"a token file elsewhere is not taken": {data(keyFile, "[default]\nrole_arn = "+role+"\nweb_identity_token_file = /etc/shadow"), Secret{RoleARN: role}},
		"keys beside a role":                  {data(keyFile, "[default]\nrole_arn = "+role+"\naws_access_key_id=AKIA1\naws_secret_access_key=se/cr+et="), keys},
		"comments, indentation and other sections": {
			data(keyFile, "# a\n; b\n[profile x]\ncredential_process = /bin/id\nthis is skipped\n [ default ] # c\n  ROLE_ARN\t=\t"+role+" # d\n\nregion = eu-west-1\n[y]\nrole_arn = nobody"),
			Secret{RoleARN: role},
		},
		"nested settings": {data(keyFile, "[default]\ns3 =\n  role_arn = nobody\n  whatever\nrole_arn = "+role), Secret{RoleARN: role}},
		"another partition": {data(keyFile, "[default]\nrole_arn = arn:aws-us-gov:iam::123456789012:role/path/efs"),
			Secret{RoleARN: "arn:aws-us-gov:iam::123456789012:role/path/efs"}},
		"endpoints are those of the cluster": {data(keyFile, "[default]\nendpoint_url = http://evil.example.com\nca_bundle = /etc/shadow\nrole_arn = "+role), Secret{RoleARN: role}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadSecret(test.data)
			if err != nil || got != test.want {
				t.Errorf("got %#v of %q and %q, want %q: %v", got, got.AccessKeyID, got.RoleARN, test.want.AccessKeyID, err)
			}
		})
	}
}

func TestASecretThatCannotBeUsedIsRefusedAndNotQuoted(t *testing.T) {
	const hidden = "HIDDEN"
	for name, test := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"nothing":               {nil, "needs keys aws_access_key_id and aws_secret_access_key, or key credentials"},
		"half of the keys":      {data(keySecret, hidden), "needs keys aws_access_key_id"},
		"an empty file":         {data(keyFile, "\n"), "section [default] needs"},
		"no default section":    {data(keyFile, "[profile a]\nrole_arn = "+role), "section [default] needs"},
		"half of a file's keys": {data(keyFile, "[default]\naws_secret_access_key = "+hidden), "section [default] needs"},
		"a program":             {data(keyFile, "[default]\nrole_arn = "+role+"\ncredential_process = cat "+hidden), "line 3: credential_process is not supported"},
		"another profile":       {data(keyFile, "[default]\nrole_arn = "+role+"\nsource_profile = "+hidden), "source_profile is not supported"},
		"the node's role":       {data(keyFile, "[default]\nrole_arn = "+role+"\ncredential_source = Ec2InstanceMetadata"), "credential_source is not supported"},
		"single sign-on":        {data(keyFile, "[default]\nsso_session = "+hidden), "sso_session is not supported"},
		"a role set twice":      {data(keyFile, "[default]\nrole_arn = "+role+"\n[default]\nrole_arn = "+role+hidden), "line 4: role_arn is set twice"},
		"no ARN":                {data(keyFile, "[default]\nrole_arn = "+hidden), "role_arn is not the ARN of an IAM role"},
		"the ARN of a user":     {data(keyFile, "[default]\nrole_arn = arn:aws:iam::123456789012:user/"+hidden), "role_arn is not the ARN"},
		"no setting":            {data(keyFile, "[default]\n"+hidden), "line 2 is neither a section nor a setting"},
		"a value on two lines":  {data(keyFile, "[default]\naws_secret_access_key = a\n  "+hidden), "line 3 is neither a section nor a setting"},
		"an open section":       {data(keyFile, "[default\n"+hidden), "line 1: the section header has no closing bracket"},
		"a key with a line end": {data(keyID, "AKIA\r\nX-Header: "+hidden, keySecret, "a"), "aws_access_key_id of the Secret is too long, or has invalid characters"},
		"a key that is no text": {data(keyID, "AKIA", keySecret, hidden+"\x00"), "aws_secret_access_key of the Secret is too long, or has invalid characters"},
		"a long file":           {data(keyFile, "[default]\n"+strings.Repeat("#"+hidden+"\n", 4000)), "more than 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadSecret(test.data)
			if err == nil || got != (Secret{}) || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("the error is %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), hidden) {
				t.Errorf("%v quotes the Secret", err)
			}
		})
	}
}

func TestASecretIsNeverPrinted(t *testing.T) {
	secret := Secret{AccessKeyID: "HIDDEN", SecretAccessKey: "HIDDEN", SessionToken: "HIDDEN", RoleARN: "HIDDEN"}
	text, err := json.Marshal(map[string]any{"secret": secret, "pointer": &secret})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("test", "secret", secret, "options", Options{Secret: &secret})
	options := Options{Secret: &secret}
	for _, printed := range []string{
		fmt.Sprint(secret, &secret), fmt.Sprintf("%v %+v %#v %s %q %x", secret, secret, secret, secret, secret, secret),
		fmt.Sprintf("%+v %#v", options, options), fmt.Sprintf("%#v", &secret), string(text), log.String(),
	} {
		if strings.Contains(printed, "HIDDEN") || strings.Contains(printed, fmt.Sprintf("%x", "HIDDEN")) {
			t.Errorf("it is printed: %s", printed)
		}
	}
}
