package levels

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// speed is a speed at which an error budget shrinks. If a budget shrinks faster, an alert fires. The long window shows that a large part of the
// budget is gone. The short window shows that the budget still shrinks, so that the alert clears soon after the problem ends.
type speed struct {
	name, long, short string
	hours             int
	// factor is the speed as a multiple of the allowed speed.
	factor   float64
	wait     monitoringv1.Duration
	severity string
	// spent is the share of the budget for 30 days that is gone after the long window.
	spent string
}

// speeds returns the speeds from the fastest. No alert is critical, because the volumes of running pods keep working.
func speeds() []speed {
	return []speed{
		{name: "fast", long: "1h", short: "5m", hours: 1, factor: 14.4, wait: "2m", severity: "warning", spent: "2%"},
		{name: "slow", long: "6h", short: "30m", hours: 6, factor: 6, wait: "15m", severity: "warning", spent: "5%"},
		{name: "lasting", long: "3d", short: "6h", hours: 72, factor: 1, wait: "1h", severity: "info", spent: "10%"},
	}
}

// least is the smallest number of bad events in the long window that lets an alert fire. One PersistentVolumeClaim that can't be provisioned causes
// fewer bad events in an hour.
const least = 30

const (
	pages = "https://github.com/csi-operators/csi-operators/blob/main/docs/guide/"
	// interval is the time between two evaluations of the rules. It is short enough for windows of five minutes.
	interval = monitoringv1.Duration("1m")
)

// Rules returns the rules of a set.
func (s Set) Rules() *monitoringv1.PrometheusRule {
	rule := &monitoringv1.PrometheusRule{
		TypeMeta:   metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: monitoringv1.PrometheusRuleKind},
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace},
	}
	every := interval
	rule.Spec.Groups = []monitoringv1.RuleGroup{{Name: s.Name, Interval: &every}}
	add := func(rules ...monitoringv1.Rule) {
		rule.Spec.Groups[0].Rules = append(rule.Spec.Groups[0].Rules, rules...)
	}
	for _, level := range s.Levels {
		add(level.records()...)
	}
	of := "{" + matcher("driver", s.Drivers) + "}"
	for _, window := range []string{"5m", "30m", "1h", "6h", "3d"} {
		total := fmt.Sprintf("sum_over_time(%s%s[%s])", Total, of, window)
		add(record(Burn+window, fmt.Sprintf("sum_over_time(%s%s[%s])\n/ (%s > 0)\n/ %s%s", Bad, of, window, total, Budget, of), ""))
	}
	for _, speed := range speeds() {
		add(s.alert(speed, of))
	}
	return rule
}

func record(name, expression, sli string) monitoringv1.Rule {
	rule := monitoringv1.Rule{Record: name, Expr: intstr.FromString(expression)}
	if sli != "" {
		rule.Labels = map[string]string{"sli": sli}
	}
	return rule
}

// records returns the rules that record the series of one level. Until the first good or bad event, some metrics have no series. In this case, the
// rules record 0 events.
func (l Level) records() []monitoringv1.Rule {
	total := fmt.Sprintf("%s{sli=%q}", Total, l.SLI)
	bad := l.bad
	if l.good != "" {
		bad = fmt.Sprintf("clamp_min(\n  %s\n  - on (driver)\n  (%s or on (driver) 0 * %s), 0)", byDriver(total), l.good, byDriver(total))
	} else {
		bad = fmt.Sprintf("(%s)\nor on (driver)\n0 * %s", bad, byDriver(total))
	}
	budget := strconv.FormatFloat((100-l.Objective)/100, 'g', 4, 64)
	return []monitoringv1.Rule{
		record(Total, l.total, l.SLI),
		record(Bad, bad, l.SLI),
		record(Budget, fmt.Sprintf("0 * %s + %s", byDriver(total), budget), l.SLI),
	}
}

// byDriver removes the label sli from a recorded series, so that both sides of a PromQL operator have the same labels.
func byDriver(series string) string { return "sum by (driver) (" + series + ")" }

func (s Set) alert(speed speed, of string) monitoringv1.Rule {
	threshold := strconv.FormatFloat(speed.factor, 'g', 4, 64)
	wait := speed.wait
	expression := fmt.Sprintf("%s%s%s > %s\nand %s%s%s > %s\nand avg_over_time(%s%s[%s]) * %d >= %d",
		Burn, speed.long, of, threshold, Burn, speed.short, of, threshold,
		Bad, of, speed.long, int(time.Duration(speed.hours)*time.Hour/time.Second), least)
	return monitoringv1.Rule{
		Alert: s.Alert, Expr: intstr.FromString(expression), For: &wait,
		Labels: map[string]string{"severity": speed.severity, "burn": speed.name, "namespace": s.Namespace},
		Annotations: map[string]string{
			"summary": fmt.Sprintf("The error budget of %s shrinks too fast.", s.Subject),
			"description": fmt.Sprintf("Service level {{ $labels.sli }} of driver {{ $labels.driver }}: for %s, its error budget has shrunk "+
				"{{ $value | printf \"%%.1f\" }} times faster than allowed. At least %s of the budget for 30 days is gone. The runbook says which "+
				"commands show the cause.", speed.long, speed.spent),
			"runbook_url": pages + s.Runbook + "#" + strings.ToLower(s.Alert),
		},
	}
}
