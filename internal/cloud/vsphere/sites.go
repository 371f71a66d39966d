package vsphere

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/csi-operators/csi-operators/internal/cloud/poll"
	"github.com/csi-operators/csi-operators/internal/cloud/vsphere/cloudconfig"
)

// account is a user of a server. By default, a vCenter locks an account after five failed logins within three minutes.
type account struct {
	server string
	cloudconfig.Login
}

// sites has the configured vCenters, each with its client. It is not safe for concurrent use.
type sites struct {
	config cloudconfig.Config
	// err is the error of the Source, if any.
	err *Error

	list  []*site
	roots []byte
	// budgets are the request limits by server. They outlive the clients.
	budgets map[string]*poll.Budget
	// refusals outlive the configuration.
	refusals poll.Refusals[account, *Error]
}

// site is one vCenter.
type site struct {
	config cloudconfig.VCenterConfig
	login  cloudconfig.Login
	// client is nil if its creation failed. failure is the error of that creation.
	client  *client
	failure *Error
}

func (s *site) account() account { return account{s.config.Server, s.login} }

// configure reads the Source. Unchanged vCenters keep their sessions. The clients of all other vCenters log out.
func (s *sites) configure(ctx context.Context, p *Poller) {
	config, logins, roots, err := p.Source(ctx)
	if err != nil {
		s.err = sourceError(err)
		if len(config.VCenters) > 0 {
			s.config = config
		}
		return
	}
	s.err, s.config = nil, config
	old, changed := s.list, !slices.Equal(s.roots, roots)
	s.list, s.roots = nil, slices.Clone(roots)
	for _, one := range config.VCenters {
		at := slices.IndexFunc(old, func(other *site) bool {
			return !changed && reflect.DeepEqual(other.config, one) && other.login == logins[one.Server]
		})
		if at >= 0 {
			s.list = append(s.list, old[at])
			old = slices.Delete(old, at, at+1)
			continue
		}
		s.list = append(s.list, s.open(p, one, logins))
	}
	for _, one := range old {
		one.disconnect(ctx)
		if !slices.ContainsFunc(config.VCenters, func(other cloudconfig.VCenterConfig) bool { return other.Server == one.config.Server }) {
			p.Metrics.Delete(one.config.Server)
			delete(s.budgets, one.config.Server)
		}
	}
}

// open creates a client. It sends no request.
func (s *sites) open(p *Poller, config cloudconfig.VCenterConfig, logins map[string]cloudconfig.Login) *site {
	if s.budgets == nil {
		s.budgets = map[string]*poll.Budget{}
	}
	if s.budgets[config.Server] == nil {
		s.budgets[config.Server] = &poll.Budget{
			Limit: cmp.Or(p.Budget, DefaultBudget), MaxRound: cmp.Or(p.MaxRound, DefaultMaxRound), Now: p.Now,
		}
	}
	one := &site{config: config, login: logins[config.Server]}
	if one.login == (cloudconfig.Login{}) {
		one.failure = &Error{
			Server: config.Server, What: "log in", Reason: cloudconfig.InvalidCredentials, Why: "user and password of this vCenter are missing: " + adviceUser,
		}
		return one
	}
	made, err := newClient(config, one.login, s.roots, cmp.Or(p.Timeout, poll.RequestTimeout), poll.Transport{
		Budget: s.budgets[config.Server], MaxAnswer: cmp.Or(p.MaxAnswer, DefaultMaxAnswer),
		Count: func(status int) { p.Metrics.Count(config.Server, status) },
	})
	if err != nil {
		one.failure = failed(config.Server, "connect", err)
		return one
	}
	one.client = made
	return one
}

// observe queries all vCenters in parallel, so that a slow or unreachable vCenter does not delay the other vCenters. It does not retry recently
// rejected logins.
func (s *sites) observe(ctx context.Context, want Want, now time.Time) map[string]answer {
	found := make([]answer, len(s.list))
	var group sync.WaitGroup
	for i, one := range s.list {
		if why, refused := s.refusals.Of(one.account(), now); refused {
			found[i].err = why
			continue
		}
		s.budgets[one.config.Server].Begin()
		group.Go(func() { found[i] = one.observe(ctx, want, now) })
	}
	group.Wait()
	answers := map[string]answer{}
	for i, one := range s.list {
		answers[one.config.Server] = found[i]
		if why := found[i].err; why != nil && why.Reason == LoginRefused {
			s.refusals.Add(one.account(), why, now)
		}
	}
	return answers
}

func (s *site) observe(ctx context.Context, want Want, now time.Time) answer {
	if s.client == nil {
		return answer{err: s.failure}
	}
	seen, err := s.client.observe(ctx, want, now)
	if err == nil {
		return answer{seen: seen}
	}
	var failure *Error
	if !errors.As(err, &failure) {
		failure = failed(s.config.Server, "ask", err)
	}
	return answer{err: failure}
}

// writers returns Writers for the vCenters that have answered.
func (s *sites) writers(answers map[string]answer) map[string]Writer {
	found := map[string]Writer{}
	for _, one := range s.list {
		if answers[one.config.Server].err == nil {
			s.budgets[one.config.Server].Begin()
			found[one.config.Server] = writer{one.client}
		}
	}
	return found
}

// disconnect logs out from all vCenters.
func (s *sites) disconnect(ctx context.Context) {
	for _, one := range s.list {
		one.disconnect(ctx)
	}
	s.list, s.roots = nil, nil
}

func (s *site) disconnect(ctx context.Context) {
	if s.client != nil {
		s.client.disconnect(ctx)
		s.client.http.CloseIdleConnections()
	}
}
