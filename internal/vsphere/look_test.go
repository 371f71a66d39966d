package vsphere_test

import (
	"testing"
)

func TestFirst(t *testing.T) {
	c := startCenter(t, 1, nil)
	s := newScene(t, c)
	s.tick()
	t.Logf("%+v", s.only())
	t.Log(c.counts)
}
