// Package doctor implements the command "doctor". The command finds out why storage does not work, names the cause, and says what to do.
//
// Reading, checking and printing are separate. Checks are pure functions, and each finds one kind of problem. doctor drops a finding that another
// finding explains.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

const efsName = efs.DriverName

const long = `Find out why storage does not work. Each finding names a cause, an object, what to do, and a page of the guide.

Without arguments it checks the drivers, their operators, the nodes and the StorageClasses of the cluster, and up to ten pods that wait for volumes.
With the name of an object, it checks everything that the object needs: PVC, StorageClass, volume, driver, node, and file system in AWS.
The output leaves out what follows from another finding, and ends with the permissions that you lack.
If the object is not in its wanted state and doctor does not know why, it says UNKNOWN, and repeats the last warnings.
With --from, it reads an archive of "oc storage collect", or a must-gather, instead of a cluster.

Exit codes: 0 no problem was found; 1 the API server did not answer, or you may not read the object; 2 wrong usage; 3 a problem was found.`

const examples = `  # Check the cluster.
  oc storage doctor
  # Why does this pod not start?
  oc storage doctor pod web-0 -n my-project
  # Why is this PersistentVolumeClaim Pending?
  oc storage doctor pvc data -n my-project
  # Why is this PersistentVolume not deleted?
  oc storage doctor pv pvc-0123
  # Does the driver accept this StorageClass, and which PersistentVolumeClaims wait for it?
  oc storage doctor class efs
  # Is this node healthy?
  oc storage doctor node worker-1
  # Why was this PersistentVolumeClaim Pending? Ask an archive of "oc storage collect", or a must-gather.
  oc storage doctor --from oc-storage-20260504-120000.tar.gz pvc data -n my-project`

// Report is what the command prints as JSON or YAML.
type Report struct {
	// Subject is the object that the user asked about. It is empty if the user asked about the whole cluster.
	Subject string `json:"subject,omitempty"`
	// Hidden means that doctor could not read the subject, because the user lacks permission, or because the folder of --from does not have the subject.
	Hidden   bool      `json:"hidden,omitempty"`
	Findings []Finding `json:"findings"`
	// Log has those lines of the drivers' logs that report a failure and name the subject, or one of its claims or volumes.
	Log           []line         `json:"log,omitempty"`
	Checks        int            `json:"checks"`
	MissingRights []plugin.Right `json:"missingRights,omitempty"`
	// NotRead lists the errors of failed requests, and the kinds of which the folder of --from may lack objects.
	NotRead []string `json:"notRead,omitempty"`
	// NotBound names the PersistentVolumeClaims that are not Bound, as "namespace/name". Only a report about the whole cluster has such names. No check
	// looks for the reason why these PersistentVolumeClaims are not Bound.
	NotBound []string `json:"notBound,omitempty"`
	// Unchecked names the waiting pods that no check looked at, as "namespace/name". doctor checks only the first ten of the pods that wait for volumes.
	Unchecked []string `json:"unchecked,omitempty"`

	// gathered means that doctor read the objects from the folder of --from. withFrom adds this --from to a command.
	gathered bool
	withFrom func(command string) string
}

// Command returns the command "doctor".
func Command(p *plugin.Plugin) *cobra.Command {
	return plugin.ReadsFolders(&cobra.Command{
		Use: "doctor [pvc|pv|pod|class|sharedvolume|node NAME]", Short: "Find out why storage does not work, and what to do", Long: long,
		Example: examples, ValidArgsFunction: complete(p),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := subjectOf(args)
			if err != nil {
				return err
			}
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			return run(cmd.Context(), p, &reader{Cluster: cluster, facts: &facts{subject: s}, logs: cluster.Logs})
		},
	})
}

// subjectOf reads the arguments: nothing, KIND NAME, or KIND/NAME.
func subjectOf(args []string) (*subject, error) {
	if len(args) == 1 {
		args = strings.SplitN(args[0], "/", 2)
	}
	switch len(args) {
	case 0:
		return nil, nil
	case 2:
	default:
		return nil, plugin.Usage("doctor takes no arguments, or a kind and a name: doctor pod NAME")
	}
	for kind, names := range map[string]string{
		kindPod: "pod pods po", kindClaim: "pvc persistentvolumeclaim persistentvolumeclaims", kindShared: "sharedvolume sharedvolumes sv",
		kindNode: "node nodes no", kindVolume: "pv persistentvolume persistentvolumes", kindClass: "class storageclass storageclasses sc",
	} {
		for name := range strings.FieldsSeq(names) {
			if name == strings.ToLower(args[0]) && args[1] != "" {
				return &subject{kind: kind, name: args[1]}, nil
			}
		}
	}
	hint := ""
	if slices.Contains(strings.Fields("statefulset statefulsets sts"), strings.ToLower(args[0])) {
		hint = "; try a pod of it: doctor pod " + args[1] + "-0"
	}
	return nil, plugin.Usage("%q %q: must be pvc, pv, pod, class, sharedvolume or node, and a name%s", args[0], args[1], hint)
}

func run(ctx context.Context, p *plugin.Plugin, r *reader) error {
	r.now = p.Now()
	if r.subject != nil && !r.subject.isClusterScoped() {
		r.subject.namespace = r.Namespace
	}
	r.read(ctx)
	r.log = r.readLogs(ctx)
	report := Report{Findings: diagnose(r.facts), Checks: len(checks()), NotBound: r.unbound, Unchecked: r.unchecked, Log: r.log}
	if r.subject != nil {
		report.Subject = r.subject.object()
		report.Hidden = r.subject.answer == plugin.Denied || r.subject.answer == plugin.NotGathered
	}
	if ctx.Err() != nil {
		return errors.New("interrupted: run the command again")
	}
	report.MissingRights = r.Missing()
	for _, err := range r.Failures {
		report.NotRead = append(report.NotRead, err.Error())
	}
	report.NotRead = append(report.NotRead, r.Gaps()...)
	report.gathered, report.withFrom = r.Folder() != nil, p.WithFrom
	for i := range report.Findings {
		report.Findings[i].Command = p.WithFrom(report.Findings[i].Command)
	}
	if p.IsTable() {
		_, err := fmt.Fprint(p.Streams.Out, text(report))
		if err != nil {
			return fmt.Errorf("print the report: %w", err)
		}
	} else if err := p.Print(report, nil); err != nil {
		return err
	}
	return outcome(r.facts, report)
}

// outcome returns an error with the exit code of the command, or nil for 0. The command has already printed everything.
func outcome(f *facts, report Report) error {
	if f.unreachable != nil || blind(f) {
		return &plugin.ExitError{Code: plugin.Failed}
	}
	for _, one := range report.Findings {
		if one.Severity != Info {
			return &plugin.ExitError{Code: plugin.Wrong}
		}
	}
	return nil
}

// blind reports whether doctor read too little to report success. With a subject, doctor could not read the subject. Without a subject, it could list
// neither CSIDrivers nor ClusterCSIDrivers.
func blind(f *facts) bool {
	if f.subject != nil {
		return !f.subject.answer.Known()
	}
	return !f.CSIDrivers.Known() && !f.CRs.Known()
}

func toCopy(format string, names ...any) string { return plugin.ToCopy(format, names...) }

// text returns the report for people. Each finding is a paragraph, the worst finding first.
func text(report Report) string {
	out := &strings.Builder{}
	say := func(format string, values ...string) { plugin.PrintLine(out, format, values...) }
	sayHeading(say, report)
	logs := report.Log
	for _, one := range report.Findings {
		say("%-8s %s", strings.ToUpper(string(one.Severity)), one.Cause)
		say("  object   %s", one.Object)
		if one.Said != "" {
			say("  said     %s", one.Said)
		}
		if one.Severity == Unknown {
			// No check knows the cause, so the log is the best evidence.
			sayLog(say, logs)
			logs = nil
		}
		say("  do       %s", one.Do)
		if one.Command != "" {
			say("           %s", one.Command)
		}
		say("  page     %s\n", one.Page)
	}
	if len(logs) > 0 {
		sayLog(say, logs)
		say("")
	}
	report.sayUnchecked(say, "Not Bound, and not checked", kindClaim, report.NotBound)
	report.sayUnchecked(say, "Pods that wait for volumes, and are not checked", kindPod, report.Unchecked)
	for _, one := range report.NotRead {
		say("Not read: %s", one)
	}
	if text := plugin.MissingText(report.MissingRights); text != "" {
		say("%s", text)
	}
	say("%s", summary(report))
	return out.String()
}

// sayHeading names the subject, or says that doctor could not read it.
func sayHeading(say func(string, ...string), report Report) {
	switch {
	case report.Hidden && report.gathered:
		say("The must-gather folder has no %s, and does not show whether the cluster had this object. If the namespace is wrong, set it with -n.\n",
			report.Subject)
	case report.Hidden:
		say("You lack permission to read %s. If the namespace is wrong, set it with -n.\n", report.Subject)
	case report.Subject != "":
		say("%s\n", report.Subject)
	}
}

// sayUnchecked lists objects that no check looked at, and prints the command that checks the first of these objects.
func (r Report) sayUnchecked(say func(string, ...string), what, kind string, names []string) {
	if len(names) == 0 {
		return
	}
	namespace, name, _ := strings.Cut(names[0], "/")
	say("%s. Run doctor for each:", listed(what, names))
	say("  %s\n", r.withFrom(toCopy("oc storage doctor %s %s -n %s", kind, name, namespace)))
}

func sayLog(say func(string, ...string), logs []line) {
	for i, one := range logs {
		if i == 0 || logs[i-1].From != one.From {
			say("Log of %s:", one.From)
		}
		say("  %s", one.Text)
	}
}

// summary returns the last line.
func summary(report Report) string {
	count := map[Severity]int{}
	for _, one := range report.Findings {
		count[one.Severity]++
	}
	partly := ""
	if len(report.MissingRights)+len(report.NotRead) > 0 {
		partly = ", but some objects could not be read"
	}
	if report.Hidden {
		return "Doctor could not check it."
	}
	if len(report.Unchecked) > 0 {
		partly = fmt.Sprintf(", and none looked at %s%s", plural(len(report.Unchecked), "waiting pod"), partly)
	}
	if len(report.NotBound) > 0 {
		partly = fmt.Sprintf(", and none looked at %s not in phase Bound%s", plural(len(report.NotBound), "PersistentVolumeClaim"), partly)
	}
	if count[Error]+count[Warning] == 0 && count[Unknown] > 0 {
		return fmt.Sprintf("%d checks do not know the cause%s.", report.Checks, partly)
	}
	if count[Error]+count[Warning] == 0 {
		return fmt.Sprintf("%d checks found nothing wrong%s.", report.Checks, partly)
	}
	if count[Unknown] > 0 {
		partly = ", and do not know the cause of the rest" + partly
	}
	return fmt.Sprintf("%d checks found %s and %s%s.", report.Checks, plural(count[Error], "error"), plural(count[Warning], "warning"), partly)
}

func plural(count int, what string) string {
	if count == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", count, what)
}

func timeOf(one *corev1.Event) time.Time {
	switch {
	case one.Series != nil:
		return one.Series.LastObservedTime.Time
	case !one.LastTimestamp.IsZero():
		return one.LastTimestamp.Time
	case !one.EventTime.IsZero():
		return one.EventTime.Time
	}
	return one.CreationTimestamp.Time
}
