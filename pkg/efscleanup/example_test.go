package efscleanup_test

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/csi-operators/csi-operators/pkg/efscleanup"
)

// An installer that destroys a cluster, with the credentials that it has anyway.
func ExampleRun() {
	ctx := context.Background()
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	report, err := efscleanup.Run(ctx, efscleanup.Options{
		InfraID: "dev-x7k2p", Account: "123456789012", Region: "us-east-1", AWS: &settings, Yes: true, Wait: true,
		Progress: func(step efscleanup.Step) { fmt.Println(step.Object.Kind, step.Object.ID, step.Object.State) },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, object := range report.Objects {
		if object.State == efscleanup.Refused {
			fmt.Println(object.ID, "stays:", object.Reason)
		}
	}
	os.Exit(int(report.Outcome()))
}
