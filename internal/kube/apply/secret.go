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

// Hashed returns the hash of a value. If the value is a hash already, it returns the value unchanged, because a cache can transform an object twice
// (WatchList).
func Hashed(value string) string {
	const prefix = "sha256-"
	if hash, found := strings.CutPrefix(value, prefix); found && len(hash) == hex.EncodedLen(sha256.Size) {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return prefix + hex.EncodeToString(sum[:])
}

// HashData replaces the values of a Secret by hashes. The operator only needs to detect changes. With hashes, the operator can't leak the values.
func HashData(secret *corev1.Secret) {
	for key, value := range secret.Data {
		secret.Data[key] = []byte(Hashed(string(value)))
	}
}

// ContentHash returns the hash of a Secret's data. It is the same before and after HashData.
func ContentHash(data map[string][]byte) string {
	content := ""
	for _, key := range slices.Sorted(maps.Keys(data)) {
		content += fmt.Sprintf("%q:%q\n", key, Hashed(string(data[key])))
	}
	return Digest(content)
}

// hashData replaces the values of a Secret with hashes, like HashData, but in the API server's answer to a write.
func hashData(applied *unstructured.Unstructured) error {
	data, isMap := applied.Object["data"].(map[string]any)
	if applied.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Secret") || !isMap {
		return nil
	}
	for key, encoded := range data {
		value, err := base64.StdEncoding.DecodeString(fmt.Sprint(encoded))
		if err != nil {
			// The decoder's error would contain a part of the value.
			return fmt.Errorf("key %s in the answer of the API server is not in base64", key)
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(Hashed(string(value))))
	}
	return nil
}
