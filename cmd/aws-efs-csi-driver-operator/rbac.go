package main

// The RBAC of the operator. controller-gen writes config/rbac/role.yaml from these markers, with the default namespace. Names of objects narrow every
// permission except list and watch. They also narrow create, because the URL of a server-side apply contains the name.
//
// The ClusterCSIDriver, and the configuration of the cluster.
// +kubebuilder:rbac:groups=operator.openshift.io,resources=clustercsidrivers,resourceNames=efs.csi.aws.com,verbs=list;watch;patch
// +kubebuilder:rbac:groups=operator.openshift.io,resources=clustercsidrivers/status,resourceNames=efs.csi.aws.com,verbs=patch
// +kubebuilder:rbac:groups=operator.openshift.io,resources=cloudcredentials,resourceNames=cluster,verbs=list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=infrastructures,resourceNames=cluster,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=apiservers;featuregates;proxies,resourceNames=cluster,verbs=list;watch
//
// The operator checks its namespace at start.
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-csi-drivers,resources=namespaces,verbs=get
//
// The Secrets that the driver's pods read at start. The operator keeps their hashes. To check AWS, it reads the controller's Secret.
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-csi-drivers,resources=secrets,resourceNames=aws-efs-cloud-credentials;node-aws-efs-cloud-credentials,verbs=list;watch
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-csi-drivers,resources=secrets,resourceNames=aws-efs-cloud-credentials,verbs=get
//
// Events on the ClusterCSIDriver and on SharedVolumes, which are in their namespaces.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// Leader election.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=openshift-cluster-csi-drivers,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=openshift-cluster-csi-drivers,resources=leases,resourceNames=aws-efs-csi-driver-operator-lock,verbs=get;update
//
// The operator corrects the TLS server name in its ServiceMonitor, because an OLM bundle may contain another namespace.
// +kubebuilder:rbac:groups=monitoring.coreos.com,namespace=openshift-cluster-csi-drivers,resources=servicemonitors,resourceNames=aws-efs-csi-driver-operator,verbs=get;patch
//
// With WATCH_MOUNTS, the operator asks Prometheus for the metrics of its namespace. For that, Prometheus wants this permission, with
// which the operator could also read how much processor time and memory these pods use.
// +kubebuilder:rbac:groups=metrics.k8s.io,namespace=openshift-cluster-csi-drivers,resources=pods,verbs=get
//
// The operands in the operator's own namespace.
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-csi-drivers,resources=configmaps;serviceaccounts;services,verbs=list;watch
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-csi-drivers,resources=configmaps,resourceNames=aws-efs-csi-driver-trusted-ca-bundle,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-csi-drivers,resources=serviceaccounts,resourceNames=aws-efs-csi-driver-controller-sa;aws-efs-csi-driver-node-sa,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-csi-drivers,resources=services,resourceNames=aws-efs-csi-driver-controller-metrics;aws-efs-node-health-metrics,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=apps,namespace=openshift-cluster-csi-drivers,resources=daemonsets;deployments,verbs=list;watch
// +kubebuilder:rbac:groups=apps,namespace=openshift-cluster-csi-drivers,resources=daemonsets,resourceNames=aws-efs-node-health;efs-csi-node;efs-csi-node-images,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=apps,namespace=openshift-cluster-csi-drivers,resources=deployments,resourceNames=aws-efs-csi-driver-controller,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=policy,namespace=openshift-cluster-csi-drivers,resources=poddisruptionbudgets,verbs=list;watch
// +kubebuilder:rbac:groups=policy,namespace=openshift-cluster-csi-drivers,resources=poddisruptionbudgets,resourceNames=aws-efs-csi-driver-controller-pdb,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,namespace=openshift-cluster-csi-drivers,resources=servicemonitors,verbs=list;watch
// +kubebuilder:rbac:groups=monitoring.coreos.com,namespace=openshift-cluster-csi-drivers,resources=servicemonitors,resourceNames=aws-efs-csi-driver-controller-monitor;aws-efs-node-health-monitor,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,namespace=openshift-cluster-csi-drivers,resources=roles;rolebindings,verbs=list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,namespace=openshift-cluster-csi-drivers,resources=roles,resourceNames=aws-efs-csi-driver-lease-leader-election;aws-efs-csi-driver-prometheus,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,namespace=openshift-cluster-csi-drivers,resources=rolebindings,resourceNames=aws-efs-csi-driver-lease-leader-election;aws-efs-csi-driver-prometheus,verbs=get;create;patch;delete
//
// The operands without a namespace.
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=efs-csi-provisioner-role;efs-kube-rbac-proxy-role;efs-privileged-role,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,resourceNames=efs-controller-privileged-binding;efs-csi-provisioner-binding;efs-kube-rbac-proxy-binding;efs-node-health-binding;efs-node-privileged-binding,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,resourceNames=efs.csi.aws.com,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,resourceNames=efs-sc,verbs=get;patch;delete
//
// The dashboard of OpenShift's console, in openshift-config-managed. OLM grants RBAC in the operator's namespace or everywhere, so the
// name of the ConfigMap narrows this permission.
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=aws-efs-csi-driver-dashboard,verbs=get;list;watch;create;patch;delete
//
// The API server authorizes clients of the operator's metrics. The RBAC of the driver's pods below includes the permissions for that.
//
// The operator requests credentials in the namespace of the cloud-credential-operator. CredentialsRequests contain no secrets.
// +kubebuilder:rbac:groups=cloudcredential.openshift.io,resources=credentialsrequests,verbs=list;watch
// +kubebuilder:rbac:groups=cloudcredential.openshift.io,resources=credentialsrequests,resourceNames=openshift-aws-efs-csi-driver;openshift-aws-efs-csi-driver-node,verbs=get;create;patch;delete
//
// SharedVolumes: the objects, their PVs and PVCs, and the limits of their namespaces.
// +kubebuilder:rbac:groups=aws-efs.managed.openshift.io,resources=sharedvolumes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=aws-efs.managed.openshift.io,resources=sharedvolumes/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=sharedvolumes.aws-efs.managed.openshift.io,verbs=list;watch
//
// Predecessors: the operator waits until they are uninstalled, and replaces their node pods in its namespace.
// +kubebuilder:rbac:groups=apps,resources=deployments,resourceNames=aws-efs-operator;aws-efs-csi-driver-operator,verbs=list;watch
// +kubebuilder:rbac:groups=apps,resources=daemonsets,resourceNames=efs-csi-node;aws-efs-csi-driver-node,verbs=list;watch
// +kubebuilder:rbac:groups=apps,namespace=openshift-cluster-csi-drivers,resources=daemonsets,resourceNames=aws-efs-csi-driver-node,verbs=delete
// +kubebuilder:rbac:groups=apps,namespace=openshift-cluster-csi-drivers,resources=controllerrevisions,verbs=list;delete
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-csi-drivers,resources=pods,verbs=delete
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-csi-drivers,resources=serviceaccounts,resourceNames=efs-csi-sa,verbs=patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,resourceNames=efs-csi-main-provisioner-binding,verbs=get;delete
// +kubebuilder:rbac:groups=security.openshift.io,resources=securitycontextconstraints,resourceNames=efs-csi-scc,verbs=list;watch;delete
//
// The admission policies of SharedVolumes.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,resourceNames=sharedvolumes.aws-efs.managed.openshift.io;unlisted-namespaces.sharedvolumes.aws-efs.managed.openshift.io,verbs=create;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,resourceNames=unlisted-namespaces.sharedvolumes.aws-efs.managed.openshift.io,verbs=delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicybindings,resourceNames=sharedvolumes.aws-efs.managed.openshift.io;unlisted-namespaces.sharedvolumes.aws-efs.managed.openshift.io,verbs=create;get;patch;delete
//
// The operator removes the driver's taint from nodes where the driver is registered. The limits keep it from all other changes.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch;patch
//
// Before a removal, the operator looks for pods that use the driver's volumes.
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
//
// Kubernetes lets an account grant only permissions that it holds. These are the permissions of the driver's pods and of the cluster's Prometheus.
// The operator itself only uses them to read storage classes and volumes, and to delete the Lease of the provisioner.
// +kubebuilder:rbac:groups=security.openshift.io,resources=securitycontextconstraints,resourceNames=privileged,verbs=use
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses;csinodes;volumeattachments,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=list;watch;create;update;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=openshift-cluster-csi-drivers,resources=leases,resourceNames=efs-csi-aws-com,verbs=get;update;delete
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-csi-drivers,resources=services;endpoints;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=openshift-cluster-csi-drivers,resources=endpointslices,verbs=get;list;watch
