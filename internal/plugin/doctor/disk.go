package doctor

import (
	"fmt"
	"strings"
)

// diskFull finds a node on which the driver could not write a file. The mount helper writes the state of each mount to a file on the node's disk.
func diskFull(f *facts) []Finding {
	node := f.subject.nodeOf()
	if f.subject.works() || node == "" {
		return nil
	}
	for i := len(f.log) - 1; i >= 0; i-- {
		if !strings.Contains(strings.ToLower(f.log[i].Text), "no space left on device") {
			continue
		}
		return []Finding{{
			Severity: Error, Object: "Node " + node, Page: string(pageTrouble), level: ofNode, effects: []string{"event/mount"},
			Cause: fmt.Sprintf("A disk of node %s is full: the driver could not write a file there.", node),
			Said:  f.log[i].From + ": " + f.log[i].Text, topic: topicOf("node", node, "disk"),
			Do:      "Free space or inodes in the file system of the file that the message names.",
			Command: toCopy("oc debug node/%s -- chroot /host sh -c 'df -h; df -i'", node),
		}}
	}
	return nil
}
