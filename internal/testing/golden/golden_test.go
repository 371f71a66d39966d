package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// A variant that changes nothing leaves no file, also not the one that it had before.
func TestAnEmptyTextHasNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	file := filepath.Join("testdata", "variant.diff")
	CompareText(t, "variant.diff", "")
	t.Setenv("UPDATE", "1")
	CompareText(t, "variant.diff", "text\n")
	if text, err := os.ReadFile(file); err != nil || string(text) != "text\n" {
		t.Errorf("%q, error %v", text, err)
	}
	for range 2 {
		CompareText(t, "variant.diff", "")
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is there", file)
		}
	}
}
