package manager

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	lru "k8s.io/apimachinery/pkg/util/cache"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// A decision is believed for this long, so that a scrape every 30 s costs two requests every five minutes at most.
	allowedFor = 5 * time.Minute
	// A refusal is believed for less long: a user who has just been granted access does not wait.
	refusedFor = 10 * time.Second
	// knownReaders and knownStrangers bound the memory of both answers. Each has its own, so that no stranger drives a reader out.
	knownReaders, knownStrangers = 64, 256
	// reviews is how many requesters the API server is asked about at a time.
	reviews = 4
	// queueing is how long one waits for that, and reviewing how long both questions about one may take. Prometheus waits for 10 s.
	queueing, reviewing = 3 * time.Second, 5 * time.Second
	// A source is one address. It is asked about reviewBurst times at once and reviewRate times a second after that: a sender of junk
	// uses up only what is its own. A pod has one address.
	reviewRate, reviewBurst = 1, 20
	// knownSources bounds the memory of sources.
	knownSources = 1024
	// longestToken is in bytes. Tokens of ServiceAccounts have one or two thousand.
	longestToken = 16 << 10
)

// access asks the API server who scrapes and whether they may, as kube-rbac-proxy does: TokenReview, then
// SubjectAccessReview on the path. Why it is not controller-runtime's filter: docs/decisions/0009.
type access struct {
	log     logr.Logger
	tokens  authentication.TokenReviewInterface
	reviews authorization.SubjectAccessReviewInterface
	handler http.Handler
	// readers are those who may read the metrics, strangers all others that were refused of late.
	readers, strangers *lru.LRUExpireCache
	// sources are the limits of the addresses that asked lately, each a *rate.Limiter.
	sources *lru.LRUExpireCache
	mutex   sync.Mutex
	// slots has an entry for each review under way.
	slots               chan struct{}
	queueing, reviewing time.Duration
}

// errBusy says that too many ask at once.
var errBusy = errors.New("too many concurrent requests")

// withAccess makes the filter of a metrics server.
func withAccess(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	tokens, err := authentication.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("create a client for TokenReviews: %w", err)
	}
	subjects, err := authorization.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("create a client for SubjectAccessReviews: %w", err)
	}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return &access{
			log: log, tokens: tokens.TokenReviews(), reviews: subjects.SubjectAccessReviews(), handler: handler,
			readers: lru.NewLRUExpireCache(knownReaders), strangers: lru.NewLRUExpireCache(knownStrangers), sources: lru.NewLRUExpireCache(knownSources),
			slots: make(chan struct{}, reviews), queueing: queueing, reviewing: reviewing,
		}, nil
	}, nil
}

// ServeHTTP answers 401 to whom the API server does not know, 403 to whom it does not allow, 500 if it does not answer, 503 if too
// many ask at once.
func (a *access) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	token, isBearer := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !isBearer || token == "" || len(token) > longestToken {
		http.Error(response, "Unauthorized: a bearer token is required", http.StatusUnauthorized)
		return
	}
	source, _, err := net.SplitHostPort(request.RemoteAddr)
	if err != nil {
		source = request.RemoteAddr
	}
	code, err := a.decide(request.Context(), source, token, request.URL.Path, strings.ToLower(request.Method))
	switch {
	case errors.Is(err, errBusy):
		// A client that floods the endpoint must not flood the log.
		http.Error(response, "Service Unavailable: "+err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		a.log.Error(err, "could not authorize a request for metrics")
		http.Error(response, "Internal Server Error: the API server did not answer", http.StatusInternalServerError)
	case code != http.StatusOK:
		http.Error(response, http.StatusText(code), code)
	default:
		a.handler.ServeHTTP(response, request)
	}
}

func (a *access) decide(ctx context.Context, source, token, path, verb string) (int, error) {
	// The hash keeps tokens out of memory.
	key := sha256.Sum256([]byte(verb + " " + path + " " + token))
	if _, known := a.readers.Get(key); known {
		return http.StatusOK, nil
	}
	if stored, known := a.strangers.Get(key); known {
		if code, ok := stored.(int); ok {
			return code, nil
		}
	}
	if !a.mayAsk(source) {
		return 0, errBusy
	}
	code, err := a.review(ctx, token, path, verb)
	switch {
	case err != nil:
		return 0, err
	case code == http.StatusOK:
		a.readers.Add(key, code, allowedFor)
	default:
		a.strangers.Add(key, code, refusedFor)
	}
	return code, nil
}

// mayAsk reports whether the API server may be asked about one more requester of a source.
func (a *access) mayAsk(source string) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	stored, _ := a.sources.Get(source)
	limit, known := stored.(*rate.Limiter)
	if !known {
		limit = rate.NewLimiter(reviewRate, reviewBurst)
	}
	// By then it would be full again.
	a.sources.Add(source, limit, reviewBurst/reviewRate*time.Second)
	return limit.Allow()
}

// review asks the API server, when fewer than the most that may be under way are.
func (a *access) review(ctx context.Context, token, path, verb string) (int, error) {
	timer := time.NewTimer(a.queueing)
	defer timer.Stop()
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-timer.C:
		return 0, errBusy
	case <-ctx.Done():
		return 0, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, a.reviewing)
	defer cancel()
	return a.ask(ctx, token, path, verb)
}

func (a *access) ask(ctx context.Context, token, path, verb string) (int, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := a.tokens.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review a token: %w", err)
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := review.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	question := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}}
	answer, err := a.reviews.Create(ctx, question, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the access of %s: %w", user.Username, err)
	}
	if !answer.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
