package doctor

// page is a guide of this repository with its section. A test reads this file, and checks that each is there.
type page string

const (
	pageInstall     page = "docs/guide/install.md"
	pageHealth      page = "docs/guide/driver.md#see-whether-it-works"
	pageTrouble     page = "docs/guide/troubleshooting.md#symptoms-in-the-cluster"
	pageUse         page = "docs/guide/use-a-volume.md"
	pageRemove      page = "docs/guide/driver.md#remove-the-driver"
	pageUnmanaged   page = "docs/guide/driver.md#change-the-driver-by-hand"
	pageCredentials page = "docs/guide/credentials.md"
	pageClassRights page = "docs/guide/credentials.md#storageclasses-that-name-a-secret"
	pageRollout     page = "docs/guide/node-rollout.md"
	pageThirdParty  page = "docs/contribute/third-party-drivers.md"
	pageDefault     page = "docs/guide/cluster-storage.md#the-default-storageclass"
	pageStorage     page = "docs/guide/cluster-storage.md#troubleshooting"
	pageAPI         page = "docs/guide/troubleshooting.md#symptoms-in-the-cluster"
	pageOther       page = "docs/guide/upgrade-from-community.md"
	pageNodePods    page = "docs/guide/alerts.md#awsefsdrivernodepodsnotready"
	pageController  page = "docs/guide/alerts.md#awsefsdrivercontrollerdown"
	pageOperator    page = "docs/guide/alerts.md#awsefsdriveroperatordown"
	pageDegraded    page = "docs/guide/alerts.md#awsefsdriveroperatordegraded"
	pageTarget      page = "docs/guide/alerts.md#awsefsmounttargetmissing"
	pageFileSystem  page = "docs/guide/alerts.md#awsefsfilesystemmissing"
	pagePoint       page = "docs/guide/alerts.md#awsefsaccesspointmissing"
	pageIAM         page = "docs/guide/alerts.md#awsefspermissionmissing"
	pagePoints      page = "docs/guide/alerts.md#awsefsaccesspointsnearlimit"
	pageOneZone     page = "docs/guide/one-zone.md"
	pageZoneClass   page = "docs/guide/one-zone.md#make-volumes-of-a-storageclass"
	pageShared      page = "docs/guide/sharedvolume.md#when-it-is-not-ready"
	pageLimits      page = "docs/guide/sharedvolume.md#limit-a-namespace"
	pageAWS         page = "docs/guide/one-zone.md#what-the-operator-looks-at"
)
