// Package install installs and uninstalls the AWS EFS CSI driver. It applies the same objects that an administrator would apply by hand from the
// files of bundle/install. Before it applies the objects, it runs preflight checks. After that, it shows progress until the driver is available.
package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/bundle"
	"github.com/csi-operators/csi-operators/internal/driver/awsefs"
	"github.com/csi-operators/csi-operators/internal/kube"
	"github.com/csi-operators/csi-operators/internal/kube/status"
	"github.com/csi-operators/csi-operators/internal/plugin"
	"github.com/csi-operators/csi-operators/internal/plugin/survey"
)

const long = `Install the AWS EFS CSI driver: check the cluster, then create what the Operator Lifecycle Manager needs, and the ClusterCSIDriver.

The command prints what it will create, and asks once. A second run continues where the first one ended.

Exit codes: 0 the driver is available; 1 you lack a permission that the checks need, and nothing was done; 3 a check failed and nothing
was done, or the driver has a problem; 4 the driver is not available yet.`

const installExamples = `  # Check the cluster, and print what would be created.
  oc storage install efs --dry-run
  # Install the driver, and wait for it.
  oc storage install efs --watch
  # On a cluster with STS: write the IAM documents of the roles first.
  oc storage install efs --iam-documents roles --account 123456789012`

type options struct {
	request
	documents, account, partition string
	yes, watch, dryRun            bool
	timeout                       time.Duration
	settings                      map[string]string
}

// Command returns the command "install".
func Command(p *plugin.Plugin) *cobra.Command {
	return plugin.Group("install", "Install an optional CSI driver", long, installCommand(p))
}

func installCommand(p *plugin.Plugin) *cobra.Command {
	var wanted options
	made := &cobra.Command{
		Use: "efs", Short: "Install the AWS EFS CSI driver", Long: long, Args: plugin.NoArgs, Example: installExamples,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := plugin.RefuseNamespace(command); err != nil {
				return err
			}
			if !slices.Contains([]string{"", automatic, manual}, wanted.approval) {
				return plugin.Usage("--approval %q: must be Automatic or Manual", wanted.approval)
			}
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			return run(command.Context(), p, cluster, wanted)
		},
	}
	flags := made.Flags()
	flags.StringVar(&wanted.namespace, "operator-namespace", kube.DefaultNamespace, "`namespace` of the operator and the driver")
	flags.StringVar(&wanted.controllerRole, "role-arn", "", "on a cluster with STS, the `ARN` of the controller's role")
	flags.StringVar(&wanted.nodeRole, "node-role-arn", "", "on a cluster with STS, the `ARN` of the nodes' role, which One Zone file systems need")
	flags.StringVar(&wanted.documents, "iam-documents", "",
		"write the IAM documents of the controller's and the nodes' role into this `folder`, and do nothing else")
	flags.StringVar(&wanted.account, "account", "", "with --iam-documents, the `number` of the AWS account")
	flags.StringVar(&wanted.partition, "partition", "aws", "with --iam-documents, the `partition` of AWS: "+strings.Join(plugin.Partitions(), ", "))
	flags.StringToStringVar(&wanted.settings, "setting", nil, "with --iam-documents, a setting of the operator, such as `NODE_IAM_MOUNTS=true`")
	flags.StringVar(&wanted.approval, "approval", "", "`approval` of the operator's updates: Automatic or Manual; "+
		"default: the approval of the existing Subscription, else Automatic")
	flags.BoolVar(&wanted.dryRun, "dry-run", false, "only check, and print what would be created")
	flags.BoolVar(&wanted.yes, "yes", false, "do not ask")
	flags.BoolVar(&wanted.watch, "watch", false, "wait until the driver is available")
	flags.DurationVar(&wanted.timeout, "timeout", 15*time.Minute, "with --watch, how long to wait")
	return made
}

// Approvals of a Subscription.
const (
	automatic = "Automatic"
	manual    = "Manual"
)

// Plan lists the checks and the objects. A Plan can't apply the objects.
type Plan struct {
	Checks []Check `json:"checks"`
	// Objects are the objects to apply, in the order in which the command applies them.
	Objects []*unstructured.Unstructured `json:"objects"`
}

func run(ctx context.Context, p *plugin.Plugin, cluster *plugin.Cluster, wanted options) error {
	found, err := observe(ctx, cluster, wanted.namespace)
	if err != nil {
		return err
	}
	if wanted.documents != "" {
		return writeDocuments(p, found, wanted)
	}
	plan := Plan{Checks: preflight(found, wanted.request)}
	if plan.Objects, err = objectsOf(bundle.Install, found, wanted.request); err != nil {
		return err
	}
	lacks := missingOf(plan.Checks)
	if err := p.Print(plan, plan.rows(wanted.dryRun || len(lacks) == 0)); err != nil {
		return err
	}
	p.PrintMissing(cluster)
	hint := ""
	if slices.Contains(lacks, checkOLM(found).Name) {
		hint = "; without OLM: docs/guide/install-without-olm.md"
	}
	switch {
	case len(lacks) > 0:
		err := fmt.Errorf("nothing was done, because these checks failed: %s%s", strings.Join(lacks, ", "), hint)
		return &plugin.ExitError{Code: plugin.Wrong, Err: err}
	case wanted.dryRun && len(cluster.Missing()) > 0:
		return &plugin.ExitError{Code: plugin.Failed}
	case wanted.dryRun:
		return nil
	}
	if err := cluster.RequireRights("the installation"); err != nil {
		return err
	}
	if err := p.Confirm(ctx, wanted.yes, fmt.Sprintf("Apply these %d objects?", len(plan.Objects))); err != nil {
		return err
	}
	if err := applyAll(ctx, p, cluster, plan.Objects); err != nil {
		return err
	}
	if !wanted.watch {
		_, _ = fmt.Fprintln(p.Streams.ErrOut, "Applied all objects. The driver becomes available within minutes. Wait for it:\n  "+again(wanted))
		return &plugin.ExitError{Code: plugin.Unfinished}
	}
	return watch(ctx, p, cluster, wanted)
}

func (p Plan) rows(withObjects bool) [][]string {
	rows := [][]string{{"CHECK", "STATE", "WHAT"}}
	for _, check := range p.Checks {
		rows = append(rows, []string{check.Name, check.State, check.Text})
	}
	if !withObjects {
		return rows
	}
	rows = append(rows, []string{""}, []string{"Objects to apply:"})
	for _, object := range p.Objects {
		rows = append(rows, []string{"  " + nameOf(object)})
	}
	return append(rows, []string{""})
}

// applyAll applies the objects in order. It uses server-side apply, so an existing object keeps the fields that applyAll does not set.
func applyAll(ctx context.Context, p *plugin.Plugin, cluster client.Client, objects []*unstructured.Unstructured) error {
	bar := p.Progress()
	defer bar.End()
	for i, object := range objects {
		if err := cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("oc-storage")); err != nil {
			return fmt.Errorf("could not apply %s; the objects that were applied before stay, and you can run the command again: %w", nameOf(object), err)
		}
		bar.Step(plugin.Step{Done: i + 1, Total: len(objects), What: nameOf(object), State: "applied"})
	}
	return nil
}

// progress says how far the installation is.
type progress struct {
	installedCSV, phase, message string
	// approve is the command that approves the InstallPlan. It is empty if OLM does not wait for an approval.
	approve string
	// available means that the driver works, that no roll-out is under way, and that the operator reports no problem. degraded means that the driver
	// works, that no roll-out is under way, and that the operator reports a problem.
	available, degraded bool
	// action says what the user must do before the operator can continue. It is empty if the user need not act.
	action string
}

// steps is the number of steps of an installation.
const steps = 3

// step returns the number of finished steps, and a text that says what the command waits for. It makes no requests.
func (p progress) step() plugin.Step {
	made := plugin.Step{Total: steps, State: p.message}
	switch {
	case p.available:
		made.Done, made.What, made.State = steps, "the driver is available", ""
	case p.phase == "Succeeded":
		made.Done, made.What = 2, "the operator installs the driver"
	case p.approve != "":
		made.What, made.State, made.Problem = "OLM waits until you approve the installation", p.approve, true
	case p.installedCSV != "":
		made.Done, made.What = 1, "OLM starts "+p.installedCSV
	default:
		made.What = "OLM looks for the operator in its catalog"
	}
	return made
}

func progressOf(ctx context.Context, cluster *plugin.Cluster, namespace string) (progress, error) {
	var found progress
	subscription, csv := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	subscription.SetGroupVersionKind(subscriptionKind())
	there, err := cluster.Find(ctx, client.ObjectKey{Namespace: namespace, Name: awsefs.Operator}, subscription)
	if err != nil || !there {
		return found, err
	}
	found.installedCSV, _, _ = unstructured.NestedString(subscription.Object, "status", "installedCSV")
	if found.installedCSV == "" {
		found.message, _, _ = unstructured.NestedString(subscription.Object, "status", "state")
		found.approve = approvalOf(subscription)
		return found, nil
	}
	csv.SetGroupVersionKind(csvKind())
	if _, err = cluster.Find(ctx, client.ObjectKey{Namespace: namespace, Name: found.installedCSV}, csv); err != nil {
		return found, err
	}
	found.phase, _, _ = unstructured.NestedString(csv.Object, "status", "phase")
	found.message, _, _ = unstructured.NestedString(csv.Object, "status", "message")
	if found.phase != "Succeeded" {
		return found, nil
	}
	cr := &operatorv1.ClusterCSIDriver{}
	if _, err = cluster.Find(ctx, client.ObjectKey{Name: awsefs.Name}, cr); err != nil {
		return found, err
	}
	// Condition Available alone does not show that the driver works. It is also True while pods wait for credentials, and its value can come from an
	// earlier installation.
	driver := survey.Driver{CR: cr}
	found.message = driver.HeldUp()
	progressing := status.Find(cr.Status.Conditions, status.Progressing)
	if cr.Status.ObservedGeneration == cr.Generation {
		found.action = driver.ActionRequired()
	}
	if cr.Status.ObservedGeneration == cr.Generation && (progressing == nil || progressing.Status != operatorv1.ConditionTrue) {
		found.available, found.degraded = driver.State() == survey.Available, driver.State() == survey.Degraded
	}
	return found, nil
}

// approvalOf returns the command that approves the InstallPlan of a Subscription. If OLM does not wait for an approval, the result is empty.
// OpenShift's console reads the same condition (openshift/console, operator-lifecycle-manager, upgradeRequiresApproval).
func approvalOf(subscription *unstructured.Unstructured) string {
	plan, _, _ := unstructured.NestedString(subscription.Object, "status", "installPlanRef", "name")
	conditions, _, _ := unstructured.NestedSlice(subscription.Object, "status", "conditions")
	waits := slices.ContainsFunc(conditions, func(one any) bool {
		condition, _ := one.(map[string]any)
		return condition["status"] == "True" && condition["reason"] == "RequiresApproval"
	})
	command := plugin.ToCopy("oc -n %s patch installplan %s --type=merge", subscription.GetNamespace(), plan)
	if !waits || command == "" {
		return ""
	}
	return command + ` -p '{"spec":{"approved":true}}'`
}

// watch shows progress until the driver is available.
func watch(ctx context.Context, p *plugin.Plugin, cluster *plugin.Cluster, wanted options) error {
	bar := p.Progress()
	err := p.Until(ctx, wanted.timeout, "the driver is available", func(ctx context.Context) (bool, error) {
		now, err := progressOf(ctx, cluster, wanted.namespace)
		if err != nil {
			return false, err
		}
		bar.Step(now.step())
		if !now.available && now.action != "" {
			return false, &plugin.ExitError{Code: plugin.Wrong, Err: errors.New("the driver becomes available only when you act: " + now.action)}
		}
		if now.degraded {
			return false, &plugin.ExitError{Code: plugin.Wrong, Err: fmt.Errorf("the driver is installed, but degraded: %s", now.message)}
		}
		return now.available, nil
	})
	bar.End()
	if plugin.Code(err) == plugin.Unfinished && ctx.Err() == nil {
		diagnose(ctx, p)
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(p.Streams.ErrOut, "The driver is available. Limit what the operator may change: oc apply -f config/limits/ of the release.")
	return nil
}
