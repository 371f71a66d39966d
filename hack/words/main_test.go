package main

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestTheGuidesHaveShortSentencesAndTheFieldsWords(t *testing.T) {
	found, err := check(os.DirFS("../.."), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range found.problems {
		t.Error(problem)
	}
}

const tooLong = "This sentence goes on and on and on and on and on and on and on and on and on and on and on and on. "

func TestFaultsAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		page string
		want []fault
	}{
		"well":            {"# Title\n\nThe operator removes the driver. It waits for pods.\n", nil},
		"long":            {"Short.\n\n" + tooLong, []fault{{3, true, "26 words, at most 24: This sentence goes on and on and on and on and on and on and on and on…"}}},
		"two lines":       {"A take-over\nof a driver.", []fault{{1, false, `"take-over": write migrate, adopt, drain, clean up`}}},
		"code":            {"```sh\n" + tooLong + "\n```\nThe field `claimRef` and `a claim`.\n", nil},
		"code in an item": {"1. Do this:\n\n   ```\n   oc get claim\n   ```\n\n   Wait.\n", nil},
		"table": {"| Claim | x |\n|---|---|\n| " + tooLong + "| y |\n", []fault{
			{1, false, `"Claim": write PersistentVolumeClaim, PVC`}, {3, true, "26 words, at most 24: This sentence goes on and on and on and on and on and on and on and on…"},
		}},
		"items are apart": {"* One two three four five six seven eight nine ten eleven twelve\n* one two three four five six seven eight nine ten eleven twelve thirteen\n", nil},
		"link":            {"See [the rights](a-claim.md).", []fault{{1, false, `"rights": write permissions, RBAC`}}},
		"part of a word":  {"PersistentVolumeClaim, bright, threshold, copyrights.", nil},
		"chain":           {"One; two; three.", []fault{{1, false, `"; two;": write sentences in place of a chain of semicolons`}}},
		"noun":            {"What is not known is left.", []fault{{1, false, `"What is not known is": write a noun`}}},
		"dots":            {"- [A](#a) · [B](#b) · [C](#c) · [D](#d) · [E e e e e](#e) · [F f f f f f](#f) · [G g g g g g](#g) · [H h h h](#h)\n", nil},
	} {
		if diff := cmp.Diff(test.want, faults(test.page), cmp.AllowUnexported(fault{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A page that is on the list may get better, and the list with it.
func TestTheListOnlyShrinks(t *testing.T) {
	claim := `docs/guide/a.md:1: "claim": write PersistentVolumeClaim, PVC`
	for name, test := range map[string]struct {
		page, list string
		want       []string
	}{
		"not on the list":   {"A claim.\n", "", []string{claim}},
		"on the list":       {"A claim.\n", "docs/guide/a.md 0 1\n", nil},
		"worse":             {"A claim, a claim.\n", "docs/guide/a.md 0 1\n", []string{claim, claim}},
		"better":            {"A claim.\n", "docs/guide/a.md 0 2\n", []string{list + ": docs/guide/a.md has 0 long sentences and 1 words: write that"}},
		"converted":         {"A PVC.\n", "docs/guide/a.md 0 0\n", []string{list + ": docs/guide/a.md has no faults any more: drop it"}},
		"page that is gone": {"A PVC.\n", "# text\ndocs/guide/b.md 0 2\n", []string{list + ": there is no page docs/guide/b.md: drop it"}},
	} {
		repository := fstest.MapFS{"docs/guide/a.md": {Data: []byte(test.page)}, list: {Data: []byte(test.list)}}
		found, err := check(repository, false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, found.problems); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatTheListAllowsCanBeSeen(t *testing.T) {
	repository := fstest.MapFS{"docs/guide/a.md": {Data: []byte("A claim.\n")}, list: {Data: []byte("docs/guide/a.md 0 1\n")}}
	found, err := check(repository, true)
	if err != nil || len(found.old) != 1 || len(found.problems) > 0 {
		t.Errorf("%v %v", found, err)
	}
	if _, err := check(fstest.MapFS{list: {}}, false); err == nil {
		t.Error("a folder without guides is checked")
	}
}

func TestAListThatIsNoneIsRefused(t *testing.T) {
	for _, text := range []string{"page.md", "page.md 1", "page.md one 2", "page.md 1 2\npage.md 1 2"} {
		if _, err := readList(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
