package efshealth

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
)

// answer is an error that AWS answers, by its code.
type answer string

func (a answer) Error() string        { return string(a) }
func (a answer) ErrorCode() string    { return string(a) }
func (a answer) ErrorMessage() string { return "as the test says" }

// refusal is the answer to whoever lacks a right.
func refusal(action string) error {
	return &aws.Error{Action: "elasticfilesystem:" + action, Object: "x", Err: answer("AccessDeniedException")}
}

// scripted is a cloud with what a test says. It notes what it is asked: "list", "targets fs-1", "points fs-1", "point fsap-1", "tag fsap-1 a=b", "untag fsap-1 a".
type scripted struct {
	systems []aws.FileSystem
	targets map[string][]aws.MountTarget
	points  map[string][]aws.AccessPoint
	// groups of mount targets, rules of these groups, and nodes are the network. lists are prefix lists.
	groups map[string][]string
	rules  map[string][]aws.Rule
	nodes  []aws.NetworkInterface
	lists  map[string][]string
	// fails are the errors of requests, by what they are or begin with.
	fails map[string]error
	asked []string
}

func (s *scripted) ask(words ...string) error {
	request := strings.Join(words, " ")
	s.asked = append(s.asked, request)
	for prefix, err := range s.fails {
		if strings.HasPrefix(request, prefix) {
			return err
		}
	}
	return nil
}

func (s *scripted) FileSystems(context.Context) ([]aws.FileSystem, error) {
	return s.systems, s.ask("list")
}

func (s *scripted) MountTargets(_ context.Context, id string) ([]aws.MountTarget, error) {
	return s.targets[id], s.ask("targets", id)
}

func (s *scripted) MountTargetSecurityGroups(_ context.Context, id string) ([]string, error) {
	return s.groups[id], s.ask("groups of", id)
}

func (s *scripted) SecurityGroupsOf(_ context.Context, ids []string) (found []aws.SecurityGroup, err error) {
	for _, id := range ids {
		if rules, known := s.rules[id]; known {
			found = append(found, aws.SecurityGroup{ID: id, Rules: rules})
		}
	}
	return found, s.ask(append([]string{"rules"}, ids...)...)
}

func (s *scripted) NetworkInterfaces(_ context.Context, instances []string) (found []aws.NetworkInterface, err error) {
	for _, one := range s.nodes {
		if slices.Contains(instances, one.Instance) {
			found = append(found, one)
		}
	}
	return found, s.ask(append([]string{"interfaces"}, instances...)...)
}

func (s *scripted) PrefixList(_ context.Context, id string) ([]string, error) {
	return s.lists[id], s.ask("prefixes", id)
}

func (s *scripted) AccessPoints(_ context.Context, id string) ([]aws.AccessPoint, error) {
	return s.points[id], s.ask("points", id)
}

func (s *scripted) AccessPoint(_ context.Context, id string) (aws.AccessPoint, error) {
	err := s.ask("point", id)
	for _, points := range s.points {
		for _, one := range points {
			if one.ID == id {
				return one, err
			}
		}
	}
	return aws.AccessPoint{}, cmp.Or[error](err, answer("AccessPointNotFound"))
}

func (s *scripted) Tag(_ context.Context, id string, tags aws.Tags) error {
	words := []string{"tag", id}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		words = append(words, fmt.Sprintf("%s=%s", key, tags[key]))
	}
	return s.ask(words...)
}

func (s *scripted) Untag(_ context.Context, id string, keys ...string) error {
	return s.ask(append([]string{"untag", id}, keys...)...)
}

func (s *scripted) Requests() int { return len(s.asked) }
