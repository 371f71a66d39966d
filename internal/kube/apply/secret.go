package apply

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Hashed returns the hash of a value, and a hash as it is: a cache may transform an object twice, for instance when it is filled by a
// stream.
func Hashed(value string) string {
	const prefix = "sha256-"
	if hash, found := strings.CutPrefix(value, prefix); found && len(hash) == hex.EncodedLen(sha256.Size) {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return prefix + hex.EncodeToString(sum[:])
}

// HashData replaces what a Secret holds by hashes. The operator only has to know whether it changes, and what is not in memory can't leak.
func HashData(secret *corev1.Secret) {
	for key, value := range secret.Data {
		secret.Data[key] = []byte(Hashed(string(value)))
	}
}

// ContentHash is that of the content of a Secret, whether HashData has replaced it or not.
func ContentHash(data map[string][]byte) string {
	content := ""
	for _, key := range slices.Sorted(maps.Keys(data)) {
		content += fmt.Sprintf("%q:%q\n", key, Hashed(string(data[key])))
	}
	return Digest(content)
}

// hashData does the same as HashData with the answer to a write, if it is a Secret.
func hashData(applied *unstructured.Unstructured) error {
	data, isMap := applied.Object["data"].(map[string]any)
	if applied.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Secret") || !isMap {
		return nil
	}
	for key, encoded := range data {
		value, err := base64.StdEncoding.DecodeString(fmt.Sprint(encoded))
		if err != nil {
			// The error of the decoder would tell a part of the value.
			return fmt.Errorf("key %s in the answer of the API server is not in base64", key)
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(Hashed(string(value))))
	}
	return nil
}
