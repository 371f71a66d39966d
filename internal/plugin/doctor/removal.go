package doctor

import (
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/csi-operators/csi-operators/internal/driver"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

func removalBlocked(f *facts) []Finding {
	return f.each(func(d survey.Driver) *Finding {
		if d.CR == nil {
			return nil
		}
		i := slices.IndexFunc(d.CR.Status.Conditions, func(one operatorv1.OperatorCondition) bool {
			// The controller of ClusterCSIDrivers sets this reason.
			return one.Reason == "VolumesInUse" && one.Status == operatorv1.ConditionTrue && one.Type != status.Progressing
		})
		if i < 0 {
			return nil
		}
		found := &Finding{
			Severity: Error, Object: crOf(d.Name), Page: string(pageRemove), Said: clip(d.CR.Status.Conditions[i].Message),
			Cause: fmt.Sprintf("The removal of driver %s waits for pods that use its volumes.", d.Name),
			Do:    "Delete these pods, or set managementState to Managed to keep the driver.", Command: "oc get pvc -A",
			topic: topicOf("removal", d.Name), level: ofRequest,
		}
		switch said := d.CR.Status.Conditions[i].Message; {
		case strings.Contains(said, driver.RemovalUnknownMounts):
			found.Severity, found.Page = Info, string(pageMounts)
			found.Cause = fmt.Sprintf("It is unknown whether nodes have mounts of driver %s, so its removal waits for two minutes.", d.Name)
			found.Do, found.Command = "Wait, or make Prometheus read the metrics of the pods of DaemonSet aws-efs-node-health.", ""
		case strings.Contains(said, driver.RemovalHasUsers):
			// This message and the next can also name nodes with mounts.
		case strings.Contains(said, driver.RemovalNeedsDriver):
			found.Cause = fmt.Sprintf("The removal of driver %s waits for objects that only the driver can delete.", d.Name)
			found.Do, found.Command = "Do what the message says, or set managementState to Managed to keep the driver.", "oc get pv"
		case strings.Contains(said, driver.RemovalHasMounts):
			found.Cause, found.Page = fmt.Sprintf("The removal of driver %s waits for mounts on nodes.", d.Name), string(pageMounts)
			found.Do = "Unmount them as the page says, and not by force. Or set managementState to Managed to keep the driver."
			found.Command = "oc get pods -A -l app=efs-csi-node -o wide"
		}
		return found
	})
}
