package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"

	"github.com/csi-operators/csi-operators/test/bench/report"
	"github.com/csi-operators/csi-operators/test/env"
	"github.com/csi-operators/csi-operators/test/env/fakeaws"
)

// start starts the operator of this repository, under the RBAC that is shipped.
func start(ctx context.Context, cluster *env.Cluster, cloud *cloud) (*env.Operator, error) {
	cluster.Operator = env.OperatorName
	variables := []string{"LOOK_AT_AWS=false"}
	if cloud != nil {
		variables = fakeaws.With(cloud.proxy)
	}
	return cluster.StartOperator(ctx, []string{"--metrics-bind-address", "0"}, variables)
}

// describe says what the operator was built from. One without a revision has to do with its hash.
func describe() (report.Program, error) {
	file, err := env.Binary(env.OperatorName)
	if err != nil {
		return report.Program{}, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return report.Program{}, fmt.Errorf("read the binary of the operator: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return report.Program{}, fmt.Errorf("read what %s was built from: %w", file, err)
	}
	program := report.Program{
		Operator: report.Ours, File: filepath.Base(file), Go: info.GoVersion,
		Version: fmt.Sprintf("sha256 %x", sha256.Sum256(content))[:len("sha256 ")+12],
	}
	changed := ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			program.Version = setting.Value[:min(12, len(setting.Value))]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = "+changes"
		}
	}
	program.Version += changed
	return program, nil
}
