// Program suite runs Kubernetes' tests of storage drivers, which are suite "External Storage" of k8s.io/kubernetes. The suite reads from a manifest
// what a driver can do. "make certify" calls this program. Its flags are the flags of Kubernetes' own e2e.test.
package main

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	ginkgotypes "github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init" // This and the next two fill in what the framework leaves open.
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	_ "k8s.io/kubernetes/test/e2e/storage/external" // The suite.
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
)

func main() {
	testing.Init()
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	id := flag.String("run-id", string(framework.RunID), "value of label e2e-run of the namespaces that the tests create")
	flag.Parse()
	framework.RunID = types.UID(*id)
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "suite: arguments without a flag: %q\n", flag.Args())
		os.Exit(2)
	}
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	// Manifests of drivers name further files.
	testfiles.AddFileSource(testfiles.RootFileSource{Root: framework.TestContext.RepoRoot})
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.RegisterFailHandler(ginkgo.Fail)
	reportProgress()
	suite, reporter := framework.CreateGinkgoConfig()
	if !ginkgo.RunSpecs(failure{}, "Kubernetes' tests of storage drivers", suite, reporter) {
		os.Exit(1)
	}
}

// failure takes the place of a *testing.T. After a failed test, RunSpecs calls Fail and returns false. The result is enough, so Fail does nothing.
type failure struct{}

// Fail does nothing.
func (failure) Fail() {}

// reportProgress prints a line for each test that has run. A test that skips itself counts as done, but gets no line.
func reportProgress() {
	done, all := 0, 0
	ginkgo.ReportBeforeSuite(func(report ginkgo.Report) { all = report.PreRunStats.SpecsThatWillRun })
	ginkgo.ReportAfterEach(func(report ginkgo.SpecReport) {
		skipped := report.State.Is(ginkgotypes.SpecStateSkipped | ginkgotypes.SpecStatePending)
		if skipped && report.Failure.Message == "" {
			return
		}
		done++
		if !skipped {
			fmt.Printf("progress: %d of %d   %s in %s: %s\n", done, all, report.State, report.RunTime.Round(time.Second), report.FullText())
		}
	})
}
