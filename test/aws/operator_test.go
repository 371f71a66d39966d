package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csi-operators/csi-operators/internal/cloud/aws"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

const (
	role     = "arn:aws:iam::123456789012:role/efs-csi-controller"
	exchange = "sts:AssumeRoleWithWebIdentity"
	keys     = "aws_access_key_id = AKIAOPERATOR\naws_secret_access_key = key-very-secret\n"
	token    = "token-very-secret"
)

// operator is a client as the operator makes it, of a configuration file in a Secret.
func (c *cloud) operator(file string) *aws.Client {
	c.T.Helper()
	secret, err := aws.ReadSecret(map[string][]byte{"credentials": []byte("[default]\n" + file)})
	env.Must(c.T, err)
	name := filepath.Join(c.T.TempDir(), "token")
	env.Must(c.T, os.WriteFile(name, []byte(token), 0o600))
	client, err := aws.New(c.T.Context(), aws.Options{
		Region: region, Secret: &secret, TokenFile: name, MaxAttempts: 2, MaxBackoff: time.Millisecond, RequestsPerMinute: 1e8,
		// The environment has that of the test.
		Endpoints: map[string]string{"elasticfilesystem": "https://nobody.invalid", "sts": "https://nobody.invalid"},
	})
	env.Must(c.T, err)
	return client
}

// tagged fails unless an access point has these tags.
func (c *cloud) tagged(client aws.Reader, id string, want aws.Tags) {
	c.T.Helper()
	point, err := client.AccessPoint(c.T.Context(), id)
	env.Must(c.T, err)
	if diff := cmp.Diff(want, point.Tags); diff != "" {
		c.T.Errorf("tags of %s (-want +got):\n%s", id, diff)
	}
}

func TestTagsAreAddedChangedAndRemovedAndOthersStay(t *testing.T) {
	c := newCloud(t)
	fileSystem := c.FileSystem(of(infra), "")
	point, neighbour := c.AccessPoint(fileSystem, of(infra, "team", "a")), c.AccessPoint(fileSystem, of(infra, "team", "a"))
	client := c.operator(keys)
	owned := "kubernetes.io/cluster/" + infra

	env.Must(t, client.Tag(t.Context(), point, aws.Tags{"team": "b", "cost center": "1/2 + 3"}))
	c.tagged(client, point, aws.Tags{owned: "owned", "team": "b", "cost center": "1/2 + 3"})
	env.Must(t, client.Untag(t.Context(), point, "cost center", "team", "never there"))
	c.tagged(client, point, aws.Tags{owned: "owned"})
	c.tagged(client, neighbour, aws.Tags{owned: "owned", "team": "a"})
	env.Must(t, client.Tag(t.Context(), fileSystem, aws.Tags{"team": "b"}))
	found, err := client.FileSystem(t.Context(), fileSystem)
	env.Must(t, err)
	if found.Tags["team"] != "b" || found.Tags[owned] != "owned" {
		t.Errorf("tags of the file system: %v", found.Tags)
	}
	if c.Count("elasticfilesystem:TagResource") != 2 || c.Count("elasticfilesystem:UntagResource") != 1 {
		t.Errorf("the calls are %v", c.Calls())
	}

	c.Set(nil)
	env.Must(t, client.Tag(t.Context(), point, nil))
	env.Must(t, client.Untag(t.Context(), point))
	if calls := c.Calls(); len(calls) != 0 {
		t.Errorf("nothing to change took %v", calls)
	}
	for _, missing := range []string{"fsap-0123456789abcdef0", "fs-0123456789abcdef0"} {
		if err := client.Tag(t.Context(), missing, aws.Tags{"team": "b"}); !aws.IsNotFound(err) {
			t.Errorf("to tag %s: %v", missing, err)
		}
		if err := client.Untag(t.Context(), missing, "team"); !aws.IsNotFound(err) {
			t.Errorf("to untag %s: %v", missing, err)
		}
	}
}

func TestTheOperatorWorksWithKeysAndWithARole(t *testing.T) {
	c := newCloud(t)
	fileSystem := c.FileSystem(of(infra), region+"b")
	for name, test := range map[string]struct {
		file, arn string
		exchanges int
	}{
		"keys": {keys, "arn:aws:sts::123456789012:user/moto", 0},
		"role": {
			"role_arn = " + role + "\nweb_identity_token_file = /nobody/reads/this\n",
			"arn:aws:sts::123456789012:assumed-role/efs-csi-controller/aws-efs-csi-driver-operator", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.Set(nil)
			client := c.operator(test.file)
			identity, err := client.Identity(t.Context())
			env.Must(t, err)
			if diff := cmp.Diff(aws.Identity{Account: account, ARN: test.arn}, identity); diff != "" {
				t.Errorf("who it is (-want +got):\n%s", diff)
			}
			for range 3 {
				found, err := client.FileSystems(t.Context())
				env.Must(t, err)
				if len(found) != 1 || found[0].ID != fileSystem || found[0].Zone != region+"b" {
					t.Errorf("file systems: %v", found)
				}
			}
			if _, err := client.Subnets(t.Context(), "kubernetes.io/cluster/"+infra); err != nil {
				t.Error(err)
			}
			if got := c.Count(exchange); got != test.exchanges || client.Requests() != 5+test.exchanges || len(c.Calls()) != client.Requests() {
				t.Errorf("%d exchanges, want %d; %d requests counted: %v", got, test.exchanges, client.Requests(), c.Calls())
			}
		})
	}
}

func TestARoleThatDoesNotTrustTheOperatorIsOneRefusedRequestForEachCall(t *testing.T) {
	c := newCloud(t)
	client := c.operator("role_arn = " + role)
	c.Set(func(call fakeaws.Call) fakeaws.Fault {
		return func(func() *fakeaws.Answer) *fakeaws.Answer {
			return fakeaws.Error(call.Action, http.StatusForbidden, "AccessDenied", "Not authorized to perform "+exchange)
		}
	})
	_, err := client.AccessPoints(t.Context(), "")
	if action, denied := aws.IsAccessDenied(err); !denied || action != exchange {
		t.Errorf("denied is %t for %q: %v", denied, action, err)
	}
	if calls := c.Calls(); len(calls) != 1 || calls[0].Action != exchange {
		t.Errorf("the calls are %v", calls)
	}
	// A role that is changed is used without a new client.
	c.Set(nil)
	if _, err := client.AccessPoints(t.Context(), ""); err != nil {
		t.Error(err)
	}
}

func TestNobodyWaitsLongerThanTheirContextForCredentials(t *testing.T) {
	c := newCloud(t)
	client := c.operator("role_arn = " + role)
	arrived, release := make(chan struct{}), make(chan struct{})
	c.Set(func(fakeaws.Call) fakeaws.Fault {
		return func(func() *fakeaws.Answer) *fakeaws.Answer {
			close(arrived)
			<-release
			return fakeaws.Error(exchange, http.StatusForbidden, "AccessDenied", "too late")
		}
	})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	answer := make(chan error, 1)
	go func() {
		_, err := client.FileSystems(ctx)
		answer <- err
	}()
	<-arrived
	end()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("who does not wait any more gets %v", err)
	}
	close(release)
}

// What AWS gives for a token is as secret as the token and the key.
func TestNoErrorHasASecret(t *testing.T) {
	c := newCloud(t)
	given := regexp.MustCompile(`<(?:SecretAccessKey|SessionToken)>([^<]+)<`)
	faults := map[string]func(call fakeaws.Call) *fakeaws.Answer{
		"denied":    func(call fakeaws.Call) *fakeaws.Answer { return denied(call.Action) },
		"throttled": func(call fakeaws.Call) *fakeaws.Answer { return busy(call.Action) },
		"broken": func(call fakeaws.Call) *fakeaws.Answer {
			return fakeaws.Error(call.Action, http.StatusInternalServerError, "InternalServerError", "no luck")
		},
		"not AWS": func(fakeaws.Call) *fakeaws.Answer {
			return &fakeaws.Answer{Status: http.StatusOK, Body: []byte("<html>")}
		},
		"disconnected": func(fakeaws.Call) *fakeaws.Answer { return nil },
		"expired token": func(call fakeaws.Call) *fakeaws.Answer {
			return fakeaws.Error(call.Action, 400, "ExpiredToken", "expired")
		},
	}
	for name, fault := range faults {
		for file, failing := range map[string]string{keys: "elasticfilesystem:", "role_arn = " + role: exchange, "role_arn = " + role + "\n": "elasticfilesystem:"} {
			t.Run(fmt.Sprintf("%s: %s with %s", name, failing, strings.Fields(file)[0]), func(t *testing.T) {
				secrets := []string{"key-very-secret", token}
				c.Set(func(call fakeaws.Call) fakeaws.Fault {
					return func(send func() *fakeaws.Answer) *fakeaws.Answer {
						if strings.HasPrefix(call.Action, failing) {
							return fault(call)
						}
						answer := send()
						for _, found := range given.FindAllStringSubmatch(string(answer.Body), -1) {
							secrets = append(secrets, found[1])
						}
						return answer
					}
				})
				client := c.operator(file)
				_, err := client.FileSystem(t.Context(), "fs-1")
				if err == nil {
					t.Fatal("no error")
				}
				if exchanged := strings.HasPrefix(file, "role_arn") && failing != exchange; exchanged != (len(secrets) == 4) {
					t.Errorf("%d secrets", len(secrets))
				}
				for _, secret := range secrets {
					for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err)} {
						if strings.Contains(text, secret) {
							t.Errorf("%s has a secret", text)
						}
					}
				}
				if !strings.HasPrefix(err.Error(), "elasticfilesystem:DescribeFileSystems of fs-1: ") || strings.Contains(err.Error(), exchange) != (failing == exchange) {
					t.Errorf("it says %q", err)
				}
				// One for the token, two attempts, and Go itself repeats a read once if the connection was used before.
				if calls := len(c.Calls()); calls > 4 {
					t.Errorf("%d calls: %v", calls, c.Calls())
				}
			})
		}
	}
}
