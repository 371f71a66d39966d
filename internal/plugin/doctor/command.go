package doctor

import (
	"fmt"
	"regexp"
)

// allowed is what Kubernetes and AWS allow as the name of an object, also with the group of an annotation or the namespace before it.
var allowed = regexp.MustCompile(`^[A-Za-z0-9](?:[-A-Za-z0-9._/:]*[A-Za-z0-9])?$`)

// toCopy is a command to copy. It is empty if a name in it is none that Kubernetes allows: what a tenant wrote is part of no command then.
func toCopy(format string, names ...any) string {
	for _, one := range names {
		if !allowed.MatchString(fmt.Sprint(one)) {
			return ""
		}
	}
	return fmt.Sprintf(format, names...)
}
