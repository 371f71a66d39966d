package image

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// secret is the pattern of one kind of secret. It has a fixed text, and a regular expression that matches the bytes after this text. The search
// begins with the fixed text, because a regular expression over a program of 35 MB takes seconds.
type secret struct {
	what, text string
	then       *regexp.Regexp
	// inText is true if the fixed text is a word that also occurs in programs. secretIn then searches only in text files.
	inText bool
}

func secrets() []secret {
	const value = `["']?[A-Za-z0-9/+~._=-]{16,}`
	awsKey := regexp.MustCompile(`^[A-Za-z_]*["']?[ \t]*[=:][ \t]*` + value)
	setting := regexp.MustCompile(`^["']?[ \t]*[=:]?[ \t]*` + value)
	return []secret{
		{what: "a private key", text: "PRIVATE KEY-----", then: regexp.MustCompile(`^\s+(Proc-Type|[A-Za-z0-9+/=]{32})`)},
		{what: "an AWS access key", text: "AKIA", then: regexp.MustCompile(`^[0-9A-Z]{16}([^0-9A-Za-z]|$)`)},
		{what: "a token", text: "eyJ", then: regexp.MustCompile(`^[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`)},
		{what: "an AWS secret key", text: "AWS_SECRET", then: awsKey, inText: true},
		{what: "an AWS secret key", text: "aws_secret", then: awsKey, inText: true},
		{what: "the key of a kubeconfig", text: "client-key-data:", then: setting, inText: true},
		{what: "a token", text: "token:", then: setting, inText: true},
		{what: "the password of a registry", text: `"auth"`, then: setting, inText: true},
	}
}

// secretIn returns what kind of secret a file holds, or "" if it holds none.
func secretIn(file File) string {
	name := path.Base(file.Path)
	if slices.Contains([]string{"kubeconfig", "id_rsa", "id_ed25519", ".netrc", ".env", ".dockerconfigjson"}, name) ||
		strings.HasSuffix(name, ".key") || strings.HasSuffix(file.Path, ".aws/credentials") {
		return "credentials, by its name"
	}
	program := bytes.IndexByte(file.Content, 0) >= 0
	for _, secret := range secrets() {
		if (!program || !secret.inText) && secret.in(file.Content) {
			return secret.what
		}
	}
	return ""
}

func (s secret) in(content []byte) bool {
	const longest = 512
	for {
		i := bytes.Index(content, []byte(s.text))
		if i < 0 {
			return false
		}
		content = content[i+len(s.text):]
		if s.then.Match(content[:min(len(content), longest)]) {
			return true
		}
	}
}
