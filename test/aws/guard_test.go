package aws

import (
	"errors"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

func wantIn(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %q", part, text)
		}
	}
}

// before calls something once, just before the first call of an action on an object, "" for any.
func before(action, object string, do func()) func(fakeaws.Call) fakeaws.Fault {
	done := false
	return func(call fakeaws.Call) fakeaws.Fault {
		if done || call.Action != action || (object != "" && call.Object != object) {
			return nil
		}
		done = true
		return func(send func() *fakeaws.Answer) *fakeaws.Answer {
			do()
			return send()
		}
	}
}

func TestTagsAreReadAgainImmediatelyBeforeEachDeletion(t *testing.T) {
	key, others := "kubernetes.io/cluster/"+infra, "kubernetes.io/cluster/"+other
	type furnished struct {
		cluster
		*cloud
	}
	for name, test := range map[string]struct {
		// When the action is called first, on the object if one is named, the change is made.
		action string
		object func(furnished) string
		change func(furnished)
		// stays must be there in the end.
		stays func(furnished) []string
	}{
		"an access point loses its tag": {
			"elasticfilesystem:DescribeAccessPoints", func(w furnished) string { return w.points[0] },
			func(w furnished) { w.Retag(w.points[0], key, "") },
			func(w furnished) []string {
				return append([]string{w.points[0], w.regional, w.group}, w.targets[:3]...)
			},
		},
		"an access point becomes another cluster's": {
			"elasticfilesystem:DescribeAccessPoints", func(w furnished) string { return w.points[2] },
			func(w furnished) { w.Retag(w.points[2], others, "owned") },
			func(w furnished) []string { return []string{w.points[2], w.oneZone, w.targets[3]} },
		},
		"a file system loses its tag": {
			"elasticfilesystem:DescribeFileSystems", func(w furnished) string { return w.regional },
			func(w furnished) { w.Retag(w.regional, key, "") },
			func(w furnished) []string { return append([]string{w.regional, w.group}, w.targets[:3]...) },
		},
		"a file system loses its tag between its mount targets": {
			"elasticfilesystem:DeleteMountTarget", func(furnished) string { return "" },
			func(w furnished) { w.Retag(w.oneZone, key, ""); w.Retag(w.regional, key, "shared") },
			func(w furnished) []string { return []string{w.regional, w.oneZone, w.group} },
		},
		"another cluster's access point appears": {
			"elasticfilesystem:DescribeFileSystems", func(w furnished) string { return w.regional },
			func(w furnished) { w.AccessPoint(w.regional, of(other)) },
			func(w furnished) []string { return append([]string{w.regional, w.group}, w.targets[:3]...) },
		},
		"a group loses its marker": {
			"ec2:DescribeSecurityGroups", func(w furnished) string { return w.group },
			func(w furnished) {
				_, err := w.EC2.DeleteTags(w.T.Context(), &ec2.DeleteTagsInput{
					Resources: []string{w.group}, Tags: []ec2types.Tag{{Key: sdk.String(efscleanup.MarkerTag)}},
				})
				env.Must(w.T, err)
			},
			func(w furnished) []string { return []string{w.group} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			w := furnished{c.furnish(infra), c}
			c.Set(before(test.action, test.object(w), func() { test.change(w) }))
			report := c.cleanup()
			want(t, report, efscleanup.LeftAlone)
			left := map[string]bool{}
			for _, id := range c.All() {
				left[id] = true
			}
			if test.action == "elasticfilesystem:DeleteMountTarget" && c.Count(test.action) != 1 {
				t.Errorf("%d mount targets were deleted, the first included", c.Count(test.action))
			}
			for _, id := range test.stays(w) {
				if !left[id] {
					t.Errorf("%s is gone: %s", id, reason(report, id))
				}
			}
			if len(left) == len(w.all()) {
				t.Error("nothing was deleted: the test looks at nothing")
			}
		})
	}
}

// A list may be older than what is read of the object itself.
func TestAFileSystemStaysIfItsAccessPointIsRefusedThoughTheListSaysOtherwise(t *testing.T) {
	c := newCloud(t)
	mine := c.little()
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		if call.Action != "elasticfilesystem:DescribeAccessPoints" || call.Object != mine.points[0] {
			return nil
		}
		return func(send func() *fakeaws.Answer) *fakeaws.Answer {
			answer := send()
			answer.Body = []byte(strings.ReplaceAll(string(answer.Body), "cluster/"+infra, "cluster/"+other))
			return answer
		}
	})
	report := c.cleanup()
	want(t, report, efscleanup.LeftAlone)
	wantIn(t, reason(report, mine.regional), "refused: ", mine.points[0])
	c.WantLeft(append(mine.targets, mine.points[0], mine.regional, mine.group)...)
}

func TestWhateverWouldBeTheWrongPlaceIsRefused(t *testing.T) {
	c := newCloud(t)
	mine := c.furnish(infra)
	otherRegion := func(fakeaws.Call) fakeaws.Fault {
		return func(send func() *fakeaws.Answer) *fakeaws.Answer {
			answer := send()
			answer.Body = []byte(strings.ReplaceAll(string(answer.Body), "elasticfilesystem:us-east-1:", "elasticfilesystem:eu-west-1:"))
			return answer
		}
	}
	for name, test := range map[string]struct {
		change  func(*efscleanup.Options)
		disturb func(fakeaws.Call) fakeaws.Fault
		says    string
		calls   int
	}{
		"another account":         {func(o *efscleanup.Options) { o.Account = "210987654321" }, nil, "belong to AWS account 123456789012, not to 210987654321", 1},
		"another region answers":  {func(*efscleanup.Options) {}, otherRegion, "which is not in region us-east-1", 4},
		"no account":              {func(o *efscleanup.Options) { o.Account = "" }, nil, "the AWS account is missing", 0},
		"an account of 11 digits": {func(o *efscleanup.Options) { o.Account = "12345678901" }, nil, "has 12 digits", 0},
		"no region":               {func(o *efscleanup.Options) { o.Region = "" }, nil, "the AWS region is missing", 0},
		"a region's name":         {func(o *efscleanup.Options) { o.Region = "Virginia" }, nil, "a region looks like us-east-1", 0},
		"no ID":                   {func(o *efscleanup.Options) { o.InfraID = "" }, nil, "is empty", 0},
		"the cluster's name":      {func(o *efscleanup.Options) { o.InfraID = "dev" }, nil, "too short", 0},
		"a wildcard":              {func(o *efscleanup.Options) { o.InfraID = "dev-x7k*" }, nil, "only lower case letters", 0},
		"a slash":                 {func(o *efscleanup.Options) { o.InfraID = "dev/x7k2p" }, nil, "only lower case letters", 0},
		"upper case":              {func(o *efscleanup.Options) { o.InfraID = "DEV-x7k2p" }, nil, "only lower case letters", 0},
		"a dash at the end":       {func(o *efscleanup.Options) { o.InfraID = "dev-x7k2p-" }, nil, "with a letter or digit at both ends", 0},
		"a line behind":           {func(o *efscleanup.Options) { o.InfraID = "dev-x7k2p\n" }, nil, "only lower case letters", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.Set(test.disturb)
			_, err := efscleanup.Run(t.Context(), options(test.change))
			if err == nil {
				t.Fatal("it is accepted")
			}
			wantIn(t, err.Error(), test.says)
			if wrong := (*efscleanup.UsageError)(nil); !errors.As(err, &wrong) {
				t.Errorf("%T is no mistake of the user", err)
			}
			if got := len(c.Calls()); got > test.calls {
				t.Errorf("%d calls, want %d at most: %v", got, test.calls, c.Calls())
			}
		})
	}
	c.Set(nil)
	c.WantLeft(mine.all()...)
}

// A region in which the cluster has nothing is no mistake that anybody could notice. Nothing happens in other regions.
func TestAnotherRegionIsNotTouched(t *testing.T) {
	c := newCloud(t)
	mine := c.furnish(infra)
	report := c.cleanup(func(o *efscleanup.Options) { o.Region = "eu-west-1" })
	want(t, report, efscleanup.Clean)
	c.WantLeft(mine.all()...)
}

// An ID that another one begins with, or that begins with another one, is just another one.
func TestAPrefixOfAnotherClustersIDMatchesNothing(t *testing.T) {
	for _, id := range []string{"dev-x7k2", "dev-x7k2p-2-3", "dev-x7k"} {
		c := newCloud(t)
		left := append(c.furnish(infra).all(), c.furnish(other).all()...)
		report := c.cleanup(withOwnerTag, func(o *efscleanup.Options) { o.InfraID = id })
		want(t, report, efscleanup.Clean)
		c.WantLeft(left...)
	}
}

// What has failed is there until AWS says otherwise of this very object: a list may lack it.
func TestWhatHasFailedIsNotDeletedBecauseAListLacksIt(t *testing.T) {
	for name, test := range map[string]struct {
		deletes, lists, empty string
		object                func(cluster) string
	}{
		"file system": {
			"elasticfilesystem:DeleteFileSystem", "elasticfilesystem:DescribeFileSystems", `{"FileSystems":[]}`,
			func(made cluster) string { return made.regional },
		},
		"access point": {
			"elasticfilesystem:DeleteAccessPoint", "elasticfilesystem:DescribeAccessPoints", `{"AccessPoints":[]}`,
			func(made cluster) string { return made.points[0] },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			made := c.little()
			tried := false
			c.Set(func(call fakeaws.Call) fakeaws.Fault {
				switch {
				case call.Action == test.deletes:
					tried = true
					return func(func() *fakeaws.Answer) *fakeaws.Answer { return denied(call.Action) }
				case tried && call.Action == test.lists && call.Object == "":
					return func(send func() *fakeaws.Answer) *fakeaws.Answer {
						answer := send()
						answer.Body = []byte(test.empty)
						return answer
					}
				}
				return nil
			})
			report := c.cleanup()
			want(t, report, efscleanup.HasFailed)
			wantIn(t, reason(report, test.object(made)), "lack permission "+test.deletes)
		})
	}
}
