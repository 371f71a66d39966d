package operator

import (
	"flag"
	"fmt"
	"strconv"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/klog/v2"

	"github.com/csi-operators/csi-operators/internal/driver"
)

// mostVerbose is the highest level. From 8 on, client-go logs the content of Secrets.
const mostVerbose = 7

// Verbosity is the log level. It is the level of the flag -v, or a higher level from spec.operatorLogLevel.
type Verbosity struct {
	flag.Value
	least int
}

// String implements flag.Value. The flag package calls it on the zero value, too.
func (v *Verbosity) String() string {
	if v == nil || v.Value == nil {
		return ""
	}
	return v.Value.String()
}

// Set implements flag.Value.
func (v *Verbosity) Set(text string) error {
	level, err := strconv.Atoi(text)
	if err != nil || level < 0 {
		return fmt.Errorf("%q is not a whole number from 0 to %d", text, mostVerbose)
	}
	v.least = min(level, mostVerbose)
	return v.Value.Set(strconv.Itoa(v.least)) //nolint:wrapcheck // The flag package names the flag.
}

// SetLevel applies spec.operatorLogLevel at once.
func (v *Verbosity) SetLevel(level operatorv1.LogLevel) {
	wanted := strconv.Itoa(min(max(v.least, driver.LogVerbosity(level)), mostVerbose))
	if v.String() == wanted {
		return
	}
	if err := v.Value.Set(wanted); err != nil {
		klog.Background().Error(err, "could not set the log level", "level", level)
	}
}
