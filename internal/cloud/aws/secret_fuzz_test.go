package aws

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// checkSecret returns which invariant a parsed Secret violates; empty if none.
func checkSecret(id, key, file string) string {
	read, err := ReadSecret(map[string][]byte{keyID: []byte(id), keySecret: []byte(key), keyFile: []byte(file)})
	if err != nil {
		for _, secret := range []string{id, key, file} {
			if len(secret) > 20 && strings.Contains(err.Error(), secret) {
				return "the error says what the Secret holds"
			}
		}
		if read != (Secret{}) {
			return "there is an error, and there are credentials"
		}
		return ""
	}
	hasKeys, hasRole := read.AccessKeyID != "" && read.SecretAccessKey != "", read.RoleARN != ""
	if hasKeys == hasRole {
		return "it is neither keys nor a role, or both"
	}
	for _, value := range []string{read.AccessKeyID, read.SecretAccessKey, read.SessionToken, read.RoleARN} {
		if len(value) > maxCredentials || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return "a value could become more of a header than a value"
		}
	}
	if hasRole && !strings.HasPrefix(read.RoleARN, "arn:aws") {
		return "a role is no ARN"
	}
	if hasKeys && strings.TrimSpace(id) != "" && strings.TrimSpace(key) != "" && read.AccessKeyID != strings.TrimSpace(id) {
		return "the keys are not those of the Secret"
	}
	return ""
}

// secretSeeds are valid and invalid credentials files.
func secretSeeds() []string {
	return []string{
		"", "[default]", "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = se/cr+et=\n",
		"[default]\nrole_arn = " + role + "\nweb_identity_token_file = /etc/shadow\n", "[default\n", "x", "[default]\ncredential_process = /bin/id",
		"[default]\ns3 =\n  role_arn = nobody\nrole_arn=" + role, "[default]\nrole_arn = " + role + "\r\nregion=x # c", "[default]\naws_access_key_id=a\x00b\naws_secret_access_key=c",
		"[default]\nrole_arn = " + role + "\nROLE_ARN=" + role, "\ufeff[default]\nrole_arn=" + role,
	}
}

// Any Secret parses to keys or a role, or to an error that does not reveal its content.
func FuzzReadSecret(f *testing.F) {
	for _, file := range secretSeeds() {
		f.Add("", "", file)
		f.Add("AKIA1\n", "se/cr+et=", file)
	}
	f.Fuzz(func(t *testing.T, id, key, file string) {
		if problem := checkSecret(id, key, file); problem != "" {
			t.Errorf("%s: %q %q %q", problem, id, key, file)
		}
	})
}

// The deterministic part of FuzzReadSecret, in every test run.
func TestSecretsThatWereCutAndJoined(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := strings.SplitAfter(strings.Join(secretSeeds(), "\n"), "\n")
	parts = append(parts, " ", "\t", "=", "[", "]", "#", "\x7f", "é", "credential_source=x\n", strings.Repeat("a", 2000))
	for range 20000 {
		var file strings.Builder
		for range random.IntN(10) {
			part := parts[random.IntN(len(parts))]
			file.WriteString(part[:random.IntN(len(part)+1)])
			if random.IntN(3) > 0 {
				file.WriteString(part)
			}
		}
		id, key := "", ""
		if random.IntN(3) == 0 {
			id, key = parts[random.IntN(len(parts))], parts[random.IntN(len(parts))]
		}
		if problem := checkSecret(id, key, file.String()); problem != "" {
			t.Fatalf("%s: %q %q %q", problem, id, key, file.String())
		}
	}
}
