// Package fakeaws is an AWS for tests: moto, which knows EFS and EC2, behind a proxy that is as strict as AWS, counts the calls, and disturbs
// the calls that a test wants disturbed. strict.go adds what moto lacks, and a new call may need its action in proxy.go.
package fakeaws

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/csi-operators/csi-operators/test/env"
)

// Venv is the path of a program in the virtual environment with what tests need of PyPI.
func Venv(program string) (string, error) {
	root, err := env.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "venv", "moto", "bin", program)
	if _, err := os.Stat(path); err != nil {
		return "", errors.New("bin/venv/moto is missing or has no " + program + ": run 'make bin/venv/moto'")
	}
	return path, nil
}

// Start starts a stand-in for AWS that knows EFS and EC2 and has nothing in it, and returns its endpoint. It takes any
// credentials. It ends with the test.
func Start(t *testing.T) string {
	t.Helper()
	endpoint, stop, err := Serve()
	env.Must(t, err)
	t.Cleanup(stop)
	return endpoint
}

// Serve starts the same for all tests of a package. The caller calls stop; it also ends with the process.
func Serve() (endpoint string, stop func(), err error) {
	program, err := Venv("moto_server")
	if err != nil {
		return "", nil, err
	}
	command := exec.Command(program, "--host", "127.0.0.1", "--port", "0")
	// It would read thousands of images of machines whenever it is emptied.
	command.Env = append(os.Environ(), "MOTO_EC2_LOAD_DEFAULT_AMIS=false")
	env.DieWithParent(command)
	output, err := command.StderrPipe()
	if err != nil {
		return "", nil, fmt.Errorf("start the stand-in for AWS: %w", err)
	}
	if err := command.Start(); err != nil {
		return "", nil, fmt.Errorf("start the stand-in for AWS: %w", err)
	}
	stop = func() { _, _ = command.Process.Kill(), command.Wait() }
	// One that says nothing is ended, which ends the reading.
	late := time.AfterFunc(env.Patience, func() { _ = command.Process.Kill() })
	endpoint, err = endpointIn(output)
	late.Stop()
	if err == nil {
		err = awaitSTS(endpoint)
	}
	if err != nil {
		stop()
		return "", nil, err
	}
	// It writes a line for each request; a full pipe would stop it.
	go func() { _, _ = io.Copy(io.Discard, output) }()
	return endpoint, stop, nil
}

// awaitSTS has the stand-in load what it needs for STS, which takes seconds on a busy machine. An operator waits for AWS no longer
// than that. What it needs for EFS and EC2 is loaded when a test makes something there.
func awaitSTS(endpoint string) error {
	ctx, cancel := context.WithTimeout(context.Background(), env.Patience)
	defer cancel()
	service := sts.New(sts.Options{Region: Region, BaseEndpoint: &endpoint, Credentials: Key()})
	if _, err := service.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}); err != nil {
		return fmt.Errorf("ask the stand-in for AWS: %w", err)
	}
	return nil
}

// endpointIn reads what a server says until it says where it listens.
func endpointIn(output io.Reader) (string, error) {
	address, lines := regexp.MustCompile(`Running on (http://[0-9.:]+)`), []string{}
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		if found := address.FindStringSubmatch(scanner.Text()); found != nil {
			return found[1], nil
		}
	}
	return "", fmt.Errorf("the stand-in for AWS ended before it listened: %q", lines)
}

// Variables is the environment of a program that talks to the stand-in: made-up credentials, none of this machine's, and no
// proxy between. A program that does not name the stand-in reaches no server.
func Variables() []string {
	return append(env.WithoutAWS(), "AWS_ACCESS_KEY_ID=testing", "AWS_SECRET_ACCESS_KEY=testing")
}

// With is the environment of an operator for which the proxy is AWS, as NAME=value, with what is given besides.
func With(proxy *Proxy, more ...string) []string {
	return append([]string{"AWS_ENDPOINT_URL=" + proxy.URL}, more...)
}
