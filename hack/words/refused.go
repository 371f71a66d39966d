package main

import "regexp"

// rule is words that guides do without.
type rule struct {
	pattern *regexp.Regexp
	better  string
}

// refused are words that only this project had, or that mean several things. Names in backticks are not looked at.
func refused() []rule {
	var rules []rule
	for _, one := range []struct{ words, better string }{
		{`tak(?:e|es|en|ing) (?:\w+ )?away|took (?:\w+ )?away`, "remove, uninstall"},
		{`definitions?(?: of a kind)?`, "CustomResourceDefinition, CRD"},
		{`claims?`, "PersistentVolumeClaim, PVC"},
		{`former|old(?:er)? operators?|community operators?`, "predecessor, or the name of the operator"},
		{`(?:tak(?:e|es|en|ing)|took)[ -](?:\w+ )?over|take-overs?|hand(?:s|ed|ing)? over`, "migrate, adopt, drain, clean up"},
		{`retir(?:e|es|ed|ing)|lend|lent|orphan(?:s|ed)?`, "migrate, adopt, drain, clean up"},
		{`obstacles?|held`, "blocked, hold"},
		{`elsewhere|foreign|verdicts?|worlds?`, "what it is: another cluster, External, third-party, result"},
		{`muster(?:s|ed)?|homeless|told`, "survey, unscheduled, reported"},
		{`rights`, "permissions, RBAC"},
		{`sweeps?|judg(?:e|es|ed)`, "poll, check"},
		{`look(?:s|ed|ing)? (?:at|into) AWS`, "check AWS"},
		{`the marks`, "owner labels and references"},
		{`(?:drivers?|operators?|objects) of others`, "third-party drivers, what others own"},
		{`made up`, "invented, generated"},
		{`those that|whosever`, "a noun"},
		{`what is [^,.;:]{1,60} is`, "a noun"},
	} {
		rules = append(rules, rule{regexp.MustCompile(`(?i)\b(?:` + one.words + `)\b`), one.better})
	}
	// Two semicolons make a chain.
	return append(rules, rule{regexp.MustCompile(`;[^;]*;`), "sentences in place of a chain of semicolons"})
}
