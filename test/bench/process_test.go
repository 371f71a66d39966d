package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	procStatus = "Name:\toperator\nVmPeak:\t 1290000 kB\nVmHWM:\t   50176 kB\nVmRSS:\t   44032 kB\nThreads:\t9\n"
	// utime is 123 ticks, stime 45.
	procStat = "4711 (a (b) c) S 1 4711 4711 0 -1 4194560 900 0 12 0 123 45 0 0 20 0 9 0 100 1320960000 11008\n"
)

func TestUsageIsReadFromProc(t *testing.T) {
	got, err := parseUsage(procStatus, procStat)
	if err != nil {
		t.Fatal(err)
	}
	want := usage{residentKibibytes: 44032, peakKibibytes: 50176, cpuSeconds: 1.68}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUsageThatCannotBeReadIsAnError(t *testing.T) {
	for name, test := range map[string]struct{ status, stat, want string }{
		"the process has ended":   {"Name:\toperator\nState:\tZ (zombie)\n", procStat, "no VmRSS; has the operator ended?"},
		"the memory is no number": {"VmRSS:\tmuch kB\n", procStat, "VmRSS:"},
		"fields are missing":      {procStatus, "4711 (operator) S 1 4711", "has 3 fields"},
		"the name is missing":     {procStatus, "", "has 0 fields"},
		"the time is no number":   {procStatus, strings.Replace(procStat, " 123 ", " some ", 1), "some"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseUsage(test.status, test.stat)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	got, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil && (got.residentKibibytes == 0 || got.peakKibibytes < got.residentKibibytes) {
		t.Errorf("got %+v", got)
	}
}
