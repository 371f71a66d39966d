package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/csi-operators/csi-operators/test/env"
)

// scene is a part of a test. It begins with the cluster and the operator that the scenes before it have left, and leaves them as it found them.
type scene struct {
	name string
	run  func(*testing.T, *env.Cluster, *env.Operator)
}

// play runs scenes one after another with one operator. After is called at the beginning of each, to check its end. What a scene that fails has left
// would be reported of the next one, so that it is the last.
func play(t *testing.T, cluster *env.Cluster, operator *env.Operator, after func(*testing.T), scenes []scene) {
	t.Helper()
	for _, one := range scenes {
		passed := t.Run(one.name, func(t *testing.T) {
			after(t)
			one.run(t, cluster, operator)
		})
		if !passed {
			return
		}
	}
}

// whole checks, when a scene ends, that the driver comes to be installed and at rest again, with all of its objects.
func whole(cluster *env.Cluster) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		t.Cleanup(func() {
			ctx := context.Background()
			if err := env.Await(ctx, "the driver whole again", func() error {
				owned, err := cluster.OwnedMetadata(ctx, env.OperatorName)
				if err == nil && len(owned) != allObjects {
					err = fmt.Errorf("%d of %d objects", len(owned), allObjects)
				}
				return errors.Join(err, cluster.Settled(ctx))
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

// unchanged checks, when a scene ends, that the cluster comes to what it was: no object more, none less, none made anew.
func unchanged(cluster *env.Cluster) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		env.Scene{Cluster: cluster, T: t}.Unchanged()
	}
}

// One installation goes through all that others do to its objects.
func TestAnInstalledDriverIsKept(t *testing.T) {
	cluster, operator := installed(t)
	play(t, cluster, operator, whole(cluster), []scene{
		{"TestInstallReachesAvailableWithEveryObject", installReachesAvailableWithEveryObject},
		{"TestStatusCarriesTheConditionsThatToolsRead", statusCarriesTheConditionsThatToolsRead},
		{"TestEveryDeletedObjectComesBack", everyDeletedObjectComesBack},
		{"TestEveryDamageIsUndone", everyDamageIsUndone},
		{"TestLabelsAndAnnotationsOfOthersStay", labelsAndAnnotationsOfOthersStay},
		{"TestABindingThatWasReplacedIsRestored", aBindingThatWasReplacedIsRestored},
		{"TestAnObjectWithoutOurFieldManagerIsTakenBack", anObjectWithoutOurFieldManagerIsTakenBack},
		{"TestAnAggregatedClusterRoleIsRestored", anAggregatedClusterRoleIsRestored},
		{"TestAManagedObjectThatCanNotGoIsReported", aManagedObjectThatCanNotGoIsReported},
		{"TestTheDocumentedStorageClassCanBeMadeBesideTheDriver", theDocumentedStorageClassCanBeMadeBesideTheDriver},
		{"TestAPodThatIsNotReadyIsNamedWithItsNode", aPodThatIsNotReadyIsNamedWithItsNode},
		{"TestAnotherReconcileWritesNothing", anotherReconcileWritesNothing},
		{"TestRolloutRestartIsHonoured", rolloutRestartIsHonoured},
	})
}

// One installation goes through all changes of what it depends on.
func TestAnInstalledDriverFollowsItsConfiguration(t *testing.T) {
	cluster, operator := installed(t)
	play(t, cluster, operator, whole(cluster), []scene{
		{"TestConfigurationRollsOutOnceToWhatDependsOnIt", configurationRollsOutOnceToWhatDependsOnIt},
		{"TestTheTrustedCABundleRestartsBothPodsOnce", theTrustedCABundleRestartsBothPodsOnce},
		{"TestTheOperatorsLogLevelIsFollowedLive", theOperatorsLogLevelIsFollowedLive},
		{"TestStorageClassStateIsFollowed", storageClassStateIsFollowed},
		{"TestObjectsThatAreNoLongerWantedArePruned", objectsThatAreNoLongerWantedArePruned},
	})
}

// SharedVolumes need an operator, and no driver.
func TestSharedVolumes(t *testing.T) {
	cluster := clean(t)
	operator := operate(t, cluster)
	play(t, cluster, operator, unchanged(cluster), []scene{
		{"TestAVolumeThatIsNoLongerAllowedStaysBound", aVolumeThatIsNoLongerAllowedStaysBound},
		{"TestThePolicyHoldsNewSharedVolumesToIDsAndKeepsThem", thePolicyHoldsNewSharedVolumesToIDsAndKeepsThem},
		{"TestThePolicyIsPutBack", thePolicyIsPutBack},
		{"TestAListOfTheNamespaceSaysWhatItMayUse", aListOfTheNamespaceSaysWhatItMayUse},
		{"TestANamespacesAdministratorCannotChangeTheList", aNamespacesAdministratorCannotChangeTheList},
		{"TestASharedVolumeThatIsDeletedUnderAPodEndsWithThePod", aSharedVolumeThatIsDeletedUnderAPodEndsWithThePod},
		{"TestNamesThatCollideOrAreTooLong", namesThatCollideOrAreTooLong},
		{"TestNothingIsStolen", nothingIsStolen},
		{"TestADamagedPairIsMadeWholeAgain", aDamagedPairIsMadeWholeAgain},
		{"TestAnEditThatAnOlderCRDLetThroughIsUndone", anEditThatAnOlderCRDLetThroughIsUndone},
		{"TestANamespaceWithSharedVolumesIsDeleted", aNamespaceWithSharedVolumesIsDeleted},
	})
}

// One operator sees drivers come and go.
func TestADriverComesAndGoes(t *testing.T) {
	cluster := clean(t)
	operator := operate(t, cluster)
	play(t, cluster, operator, unchanged(cluster), []scene{
		{"TestEventsTellWhatHappened", eventsTellWhatHappened},
		{"TestDeletionRemovesTheDriverAndNothingElse", deletionRemovesTheDriverAndNothingElse},
		{"TestRemovalWaitsForPodsThatUseVolumes", removalWaitsForPodsThatUseVolumes},
		{"TestFinalizersOfAnotherOperatorThatRunsAreLeftToIt", finalizersOfAnotherOperatorThatRunsAreLeftToIt},
		{"TestUnknownManagementStateChangesNothingAndSaysSo", unknownManagementStateChangesNothingAndSaysSo},
	})
}

// SharedVolumes beside a driver, which goes and comes back in the last scene.
func TestADriverServesSharedVolumes(t *testing.T) {
	cluster, operator := installed(t)
	play(t, cluster, operator, func(*testing.T) {}, []scene{
		{"TestTheWalkThroughOfTheManual", theWalkThroughOfTheManual},
		{"TestAnOlderCRDIsReportedAndLivedWith", anOlderCRDIsReportedAndLivedWith},
		{"TestNamespacesWithoutAListCanBeShutOut", namespacesWithoutAListCanBeShutOut},
	})
}
