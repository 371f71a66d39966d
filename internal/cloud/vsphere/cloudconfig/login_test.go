package cloudconfig_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func reasonOf(err error) cloudconfig.Reason {
	var own *cloudconfig.Error
	if errors.As(err, &own) {
		return own.Reason
	}
	return ""
}

func TestLoginsAreTakenByServerAndAnErrorNamesTheKey(t *testing.T) {
	config := cloudconfig.Config{VCenters: []cloudconfig.VCenterConfig{{Server: "vc1"}, {Server: "vc2"}}}
	// A password can have every printable character.
	typed := ""
	for r := ' '; r <= '~'; r++ {
		typed += string(r)
	}
	good := map[string][]byte{
		"vc1.username": []byte("a@vsphere.local"), "vc1.password": []byte(typed), "vc2.username": []byte(`D\b`), "vc2.password": []byte("ä €"),
		"vc3.username": []byte("x"),
	}
	logins, err := cloudconfig.Logins(config, good)
	if err != nil || len(logins) != 2 || logins["vc1"].Password != typed || logins["vc2"].User != `D\b` {
		t.Fatalf("%v, %v", logins, err)
	}
	for name, value := range map[string]string{
		"absent": "-", "empty": "", "line break": "s3cret-p4ss\n", "NUL": "s3cret-p4ss\x00", "no UTF-8": "s3cret-p4ss\xff", "zero width": "s3cret-p4ss\u200b",
	} {
		for _, key := range []string{"vc1.password", "vc2.username"} {
			bad := maps.Clone(good)
			if bad[key] = []byte(value); value == "-" {
				delete(bad, key)
			}
			logins, err := cloudconfig.Logins(config, bad)
			if err == nil || logins != nil || reasonOf(err) != cloudconfig.InvalidCredentials || !strings.Contains(err.Error(), key) ||
				strings.Contains(err.Error(), "s3cret-p4ss") {
				t.Errorf("%s of %s: %v, %v", key, name, logins, err)
			}
		}
	}
}

func TestALoginNeverPrintsItsPassword(t *testing.T) {
	login := cloudconfig.Login{User: "a@vsphere.local", Password: "s3cret-p4ss"}
	encoded, err := json.Marshal(map[string]any{"login": login})
	must(t, err)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "login", login)
	funcr.New(func(prefix, args string) { log.WriteString(prefix + args) }, funcr.Options{}).Info("x", "login", login)
	text := fmt.Sprintf("%v %+v %#v %s %q %x %d %v", login, login, login, login, login, login, login, []cloudconfig.Login{login}) + string(encoded) + log.String()
	if strings.Contains(text, "s3cret-p4ss") || strings.Contains(text, "733363") || strings.Count(text, "a@vsphere.local") < 10 {
		t.Error(text)
	}
}

func TestTheNameOfAUserIsOneThatTheDriverTakes(t *testing.T) {
	for user, want := range map[string]string{
		"svc@vsphere.local": "", `CORP\svc`: "", `corp.example\svc_ocp`: "", "svc_ocp-1@corp.example": "",
		"admin": "has no domain", "svc@corp.example@vsphere.example": "has more than one @", "svc+ocp@corp.example": "has a character",
		"svc@corp_example": "has a character", `corp\svc@vsphere.local`: "has a character", "@corp": "has a character", "svc@": "has a character",
	} {
		if got := cloudconfig.UserProblem(user); got != want && (want == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %q, want %q", user, got, want)
		}
	}
}
