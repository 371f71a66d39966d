package cluster

import (
	"bytes"
	"crypto/rand"
	"encoding/csv"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigs is the directory with the kubeconfig files of the components.
const kubeconfigs = "kubeconfigs"

// bootstrapUser is the user that creates the cluster's first objects. It is a user other than the administrator, so that the audit log shows whether
// devcluster or the administrator sent a request.
const bootstrapUser = "devcluster"

const mastersGroup = "system:masters"

// user is a user with a token. Every component that sends requests to the API server has its own user, so that the audit log shows which component
// sent a request.
type user struct {
	name  string
	group string
	file  string
}

func (l layout) users() []user {
	return []user{
		{name: "admin", group: mastersGroup, file: l.adminKubeconfig()},
		{name: bootstrapUser, group: mastersGroup, file: l.kubeconfig(bootstrapUser)},
		{name: "system:kube-controller-manager", file: l.kubeconfig(ControllerManager)},
		{name: "system:kube-scheduler", file: l.kubeconfig(Scheduler)},
		{name: Kwok, group: mastersGroup, file: l.kubeconfig(Kwok)},
		{name: StandIns, group: mastersGroup, file: l.kubeconfig(StandIns)},
		{name: Network, group: mastersGroup, file: l.kubeconfig(Network)},
		{name: "system:kube-proxy", file: l.kubeconfig(KubeProxy)},
		{name: Programs, group: mastersGroup, file: l.kubeconfig(Programs)},
	}
}

// writeUsers makes a token and a kubeconfig file for each user. It also writes the file with all tokens, which the API server reads.
func (l layout) writeUsers(url string, ca []byte) error {
	var tokens bytes.Buffer
	table := csv.NewWriter(&tokens)
	for _, u := range l.users() {
		token := strings.ToLower(rand.Text())
		// The columns are the token, the user's name, the UID and a list of groups. The name is also the UID.
		row := []string{token, u.name, u.name}
		if u.group != "" {
			row = append(row, u.group)
		}
		if err := table.Write(row); err != nil {
			return fmt.Errorf("encode the token of user %s: %w", u.name, err)
		}
		if err := writeKubeconfig(u.file, u.name, token, url, ca); err != nil {
			return err
		}
	}
	table.Flush()
	if err := table.Error(); err != nil {
		return fmt.Errorf("encode the users' tokens: %w", err)
	}
	if err := os.WriteFile(l.path(tokensFile), tokens.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the users' tokens: %w", err)
	}
	return nil
}

func writeKubeconfig(path, user, token, url string, ca []byte) error {
	const name = "devcluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write the kubeconfig of user %s: %w", user, err)
	}
	return nil
}
