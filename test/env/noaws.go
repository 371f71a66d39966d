package env

import (
	"os"
	"slices"
	"strings"
)

// WithoutAWS is the environment of this process without its access to AWS.
func WithoutAWS() []string {
	others := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		// The tests may collect garbage less often than the programs whose memory they measure.
		return strings.HasPrefix(variable, "AWS_") || strings.HasPrefix(variable, "GOGC=")
	})
	return append(others, NoAWS()...)
}

// NoAWS keeps a program away from AWS: its endpoint is a closed port, and it finds no credentials.
func NoAWS() []string {
	return []string{
		"AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE=/dev/null", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1",
	}
}
