package clustercsidriver

import (
	"errors"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-operators/csi-operators/internal/controller/clustercsidriver/migration"
	"github.com/csi-operators/csi-operators/internal/driver"
)

func TestTheSchedulerIsToldToWaitForADriverThatLimitsVolumes(t *testing.T) {
	attaching := disk()
	attaching.Sidecars = []driver.Sidecar{{Name: "attacher", Workload: driver.Controller}}
	yes := true
	live := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: diskName}, Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: &yes}}
	for name, tc := range map[string]struct {
		driver     driver.Driver
		annotation string
		minor      int
		want       bool
		problem    string
	}{
		"by default, with limits":       {attaching, "", 37, true, ""},
		"by default, without limits":    {disk(), "", 37, false, ""},
		"by default, the gate is alpha": {attaching, "", 36, false, ""},
		"asked for, without limits":     {disk(), "true", 36, true, ""},
		"not wanted":                    {attaching, "false", 37, false, ""},
		"an invalid value keeps it":     {disk(), "on", 36, true, "stays true"},
	} {
		t.Run(name, func(t *testing.T) {
			trip := newTrip(t, tc.driver, infrastructure(), live)
			trip.KubernetesMinor = tc.minor
			cr, found := healthy()
			cr.Annotations = map[string]string{driver.SchedulingAnnotation: tc.annotation}
			cfg, problems, err := trip.config(t.Context(), cr, found.live(), migration.State{})
			said := strings.Join(problems, ";")
			if err != nil || cfg.RequiresDriver != tc.want || !strings.Contains(said, tc.problem) || (tc.problem == "") != (said == "") {
				t.Errorf("%v, problems %q, error %v", cfg.RequiresDriver, problems, err)
			}
		})
	}
}

func TestAnUnreadableSettingOfSchedulingNeedsTheCSIDriver(t *testing.T) {
	trip := newTrip(t, disk(), infrastructure())
	trip.cluster.Refuse(errors.New("no route"), "get CSIDriver "+diskName)
	cr, found := healthy()
	cr.Annotations = map[string]string{driver.SchedulingAnnotation: "on"}
	if _, _, err := trip.config(t.Context(), cr, found.live(), migration.State{}); err == nil || err.Error() != "read CSIDriver "+diskName+": no route" {
		t.Errorf("error %v", err)
	}
}
