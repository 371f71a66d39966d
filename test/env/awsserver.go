package env

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

// ServeAWS starts the stand-in for AWS of StartAWS for all tests of a package. Whoever starts it calls stop; it also ends with the
// process.
func ServeAWS() (endpoint string, stop func(), err error) {
	program, err := Venv("moto_server")
	if err != nil {
		return "", nil, err
	}
	command := exec.Command(program, "--host", "127.0.0.1", "--port", "0")
	// It would read thousands of images of machines whenever it is emptied.
	command.Env = append(os.Environ(), "MOTO_EC2_LOAD_DEFAULT_AMIS=false")
	dieWithParent(command)
	output, err := command.StderrPipe()
	if err != nil {
		return "", nil, fmt.Errorf("start the stand-in for AWS: %w", err)
	}
	if err := command.Start(); err != nil {
		return "", nil, fmt.Errorf("start the stand-in for AWS: %w", err)
	}
	stop = func() { _, _ = command.Process.Kill(), command.Wait() }
	if endpoint, err = endpointIn(output); err != nil {
		stop()
		return "", nil, err
	}
	// It writes a line for each request; a full pipe would stop it.
	go func() { _, _ = io.Copy(io.Discard, output) }()
	return endpoint, stop, nil
}
