package share

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csi-operators/csi-operators/api/v1alpha1"
	"github.com/csi-operators/csi-operators/internal/cloud/efs"
	"github.com/csi-operators/csi-operators/internal/plugin"
)

// Share is a SharedVolume as the commands show it.
type Share struct {
	Namespace   string         `json:"namespace"`
	Name        string         `json:"name"`
	FileSystem  string         `json:"fileSystemID"`
	AccessPoint string         `json:"accessPointID"`
	Phase       v1alpha1.Phase `json:"phase"`
	PVC         string         `json:"pvc,omitempty"`
	Message     string         `json:"message,omitempty"`
	// Allowed is yes, no or unknown. Why is the reason if Allowed is no. Only command explain sets these two fields.
	Allowed string `json:"allowed,omitempty"`
	Why     string `json:"why,omitempty"`
}

func shareOf(object *v1alpha1.SharedVolume) Share {
	return Share{
		Namespace: object.Namespace, Name: object.Name, FileSystem: object.Spec.FileSystemID, AccessPoint: object.Spec.AccessPointID,
		Phase: object.Status.Phase, PVC: object.Status.ClaimRef.Name, Message: object.Status.Message,
	}
}

// sharesIn lists the SharedVolumes of a namespace. If the name of the namespace is empty, it lists the SharedVolumes of all namespaces.
func sharesIn(ctx context.Context, c *plugin.Cluster, namespace string) ([]Share, error) {
	list := &v1alpha1.SharedVolumeList{}
	if _, err := c.FindAll(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	found := make([]Share, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, shareOf(&list.Items[i]))
	}
	slices.SortFunc(found, func(a, b Share) int { return cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return found, nil
}

func listCommand(p *plugin.Plugin) *cobra.Command {
	all := false
	command := &cobra.Command{
		Use: "list", Short: "List the SharedVolumes of a namespace", Args: plugin.NoArgs,
		Long: "List the SharedVolumes of a namespace, each with its PVC. A pod mounts the share by the name of this PVC.",
		Example: "  # List the SharedVolumes of a namespace, with their PVCs.\n" +
			"  oc storage share list -n my-project\n" +
			"  # List the SharedVolumes of the whole cluster.\n" +
			"  oc storage share list -A",
		RunE: func(command *cobra.Command, _ []string) error {
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			namespace := cluster.Namespace
			if all {
				namespace = ""
			}
			found, err := sharesIn(command.Context(), cluster, namespace)
			if err != nil {
				return err
			}
			if err := p.Print(found, listRows(found, namespace)); err != nil {
				return err
			}
			p.PrintMissing(cluster)
			if len(found) == 0 && len(cluster.Missing()) > 0 {
				return &plugin.ExitError{Code: plugin.Failed}
			}
			return nil
		},
	}
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list the SharedVolumes of all namespaces")
	return plugin.ReadsFolders(command)
}

func listRows(shares []Share, namespace string) [][]string {
	if len(shares) == 0 {
		where := "the cluster"
		if namespace != "" {
			where = "namespace " + namespace
		}
		return [][]string{{fmt.Sprintf("No SharedVolume was found in %s.", where)}}
	}
	rows := [][]string{{"NAMESPACE", "NAME", "FILE SYSTEM", "ACCESS POINT", "PHASE", "PVC", "MESSAGE"}}
	for _, one := range shares {
		rows = append(rows, []string{one.Namespace, one.Name, one.FileSystem, one.AccessPoint, string(one.Phase), one.PVC, one.Message})
	}
	return rows
}

type explainOptions struct {
	all                     bool
	fileSystem, accessPoint string
}

func explainCommand(p *plugin.Plugin) *cobra.Command {
	var options explainOptions
	command := &cobra.Command{
		Use: "explain", Short: "Explain which shares a namespace may use", Args: plugin.NoArgs,
		Long: "Explain which shares a namespace may use, and why. This covers the shares of its SharedVolumes, and one share that you name.\n\n" +
			"Exit codes: 0 all is allowed; 1 you lack a permission that the answer depends on; 3 something is not allowed.",
		Example: "  # Which access points may the namespace use, and why?\n" +
			"  oc storage share explain -n my-project\n" +
			"  # May the namespace use this access point?\n" +
			"  oc storage share explain -n my-project --file-system fs-0123456789abcdef0 --access-point fsap-0123456789abcdef0",
		RunE: func(command *cobra.Command, _ []string) error {
			cluster, err := p.Connect()
			if err != nil {
				return err
			}
			if err := options.check(); err != nil {
				return err
			}
			return explain(command.Context(), p, cluster, options)
		},
	}
	command.Flags().BoolVarP(&options.all, "all-namespaces", "A", false, "explain all namespaces that have a list or SharedVolumes")
	command.Flags().StringVar(&options.fileSystem, "file-system", "", "`ID` of a file system, to check whether the namespace may use it")
	command.Flags().StringVar(&options.accessPoint, "access-point", "", "`ID` of an access point of the file system in --file-system")
	completeIDs(p, command)
	return command
}

func (o explainOptions) check() error {
	if o.fileSystem == "" && o.accessPoint == "" {
		return nil
	}
	return checkIDs(o.fileSystem, o.accessPoint)
}

// Explanation says what a namespace may use.
type Explanation struct {
	Namespace string `json:"namespace"`
	// May summarizes what the namespace may use, and why.
	May    string  `json:"may"`
	Shares []Share `json:"shares"`
}

func explain(ctx context.Context, p *plugin.Plugin, c *plugin.Cluster, options explainOptions) error {
	decides, err := observeRules(ctx, c)
	if err != nil {
		return err
	}
	namespace := c.Namespace
	if options.all {
		namespace = ""
	}
	shares, err := sharesIn(ctx, c, namespace)
	if err != nil {
		return err
	}
	namespaces, err := namespacesOf(ctx, c, namespace, shares)
	if err != nil {
		return err
	}
	var asked *efs.Share
	if options.fileSystem != "" {
		asked = &efs.Share{FileSystem: options.fileSystem, AccessPoint: options.accessPoint}
	}
	found := explanations(namespaces, decides, shares, asked)
	var rows [][]string
	for _, one := range found {
		rows = append(rows, one.rows()...)
	}
	if err := p.Print(found, rows); err != nil {
		return err
	}
	p.PrintMissing(c)
	return exitOf(found)
}

// namespacesOf returns the named namespace. If the name is empty, it returns all namespaces that have a list of allowed shares, or SharedVolumes. A
// value is nil if the user can't read the namespace.
func namespacesOf(ctx context.Context, c *plugin.Cluster, name string, shares []Share) (map[string]*corev1.Namespace, error) {
	found := map[string]*corev1.Namespace{}
	if name != "" {
		one := &corev1.Namespace{}
		there, err := c.Find(ctx, client.ObjectKey{Name: name}, one)
		if found[name] = nil; there {
			found[name] = one
		}
		return found, err
	}
	for _, share := range shares {
		found[share.Namespace] = nil
	}
	list := &corev1.NamespaceList{}
	_, err := c.FindAll(ctx, list)
	for i := range list.Items {
		one := &list.Items[i]
		_, used := found[one.Name]
		if _, listed := one.Annotations[efs.AllowedAnnotation]; listed || used {
			found[one.Name] = one
		}
	}
	return found, err
}

// explanations says for each namespace which of its shares the namespace may use. If argument "asked" is set, it also says whether each namespace may
// use that share. It is pure.
func explanations(namespaces map[string]*corev1.Namespace, decides rules, shares []Share, asked *efs.Share) []Explanation {
	var found []Explanation
	for name, namespace := range namespaces {
		may := accessOf(name, namespace, decides)
		one := Explanation{Namespace: name, May: cmp.Or(may.unknown, may.why), Shares: []Share{}}
		for _, share := range shares {
			if share.Namespace == name {
				share.Allowed, share.Why = may.evaluate(efs.Share{FileSystem: share.FileSystem, AccessPoint: share.AccessPoint})
				if share.Allowed == no && share.Phase == v1alpha1.Ready {
					share.Why += "; the share was allowed before, and its PVC stays bound until you revoke the SharedVolume"
				}
				one.Shares = append(one.Shares, share)
			}
		}
		if asked != nil {
			share := Share{Namespace: name, Name: "-", FileSystem: asked.FileSystem, AccessPoint: asked.AccessPoint}
			share.Allowed, share.Why = may.evaluate(*asked)
			one.Shares = append(one.Shares, share)
		}
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b Explanation) int { return cmp.Compare(a.Namespace, b.Namespace) })
	return found
}

func (e Explanation) rows() [][]string {
	rows := [][]string{{fmt.Sprintf("Namespace %s: %s.", e.Namespace, e.May)}}
	if len(e.Shares) > 0 {
		rows = append(rows, []string{"NAME", "FILE SYSTEM", "ACCESS POINT", "PHASE", "ALLOWED", "WHY"})
	}
	for _, one := range e.Shares {
		rows = append(rows, []string{one.Name, one.FileSystem, one.AccessPoint, string(one.Phase), one.Allowed, one.Why})
	}
	return append(rows, []string{""})
}

// exitOf returns an error with an exit code if a namespace may not use a share, or if the command can't find out whether the namespace may use the
// share.
func exitOf(found []Explanation) error {
	code := 0
	for _, one := range found {
		for _, share := range one.Shares {
			switch {
			case share.Allowed == no:
				code = plugin.Wrong
			case share.Allowed == unclear && code == 0:
				code = plugin.Failed
			}
		}
	}
	if code == 0 {
		return nil
	}
	return &plugin.ExitError{Code: code}
}
