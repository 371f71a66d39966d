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
	// allowedFor is how long access caches a permission. Prometheus scrapes every 30 s. So one Prometheus causes two requests to the API server every
	// five minutes.
	allowedFor = 5 * time.Minute
	// refusedFor is how long access caches a refusal. It is short, so that a newly granted permission works soon.
	refusedFor = 10 * time.Second
	// maxPermissions and maxRefusals limit the caches of permissions and refusals. There are two caches, so that refusals can't evict permissions.
	maxPermissions, maxRefusals = 64, 256
	// reviews limits the number of requests whose reviews by the API server run at the same time.
	reviews = 4
	// queueing limits the time for which a request waits until its reviews can start. reviewing limits the time of both reviews of a request. The sum is
	// below 10 s, because Prometheus gives up after 10 s.
	queueing, reviewing = 3 * time.Second, 5 * time.Second
	// reviewRate, per second, and reviewBurst limit the reviews for each source address. So a client that sends junk blocks only itself. A pod has one
	// address.
	reviewRate, reviewBurst = 1, 20
	// maxSources limits the number of source addresses in the cache.
	maxSources = 1024
	// longestToken limits the length of a token, in bytes. ServiceAccount tokens have one or two thousand bytes.
	longestToken = 16 << 10
)

// access authenticates a request by a TokenReview, and then authorizes it by a SubjectAccessReview of the path, like kube-rbac-proxy.
// docs/decisions/0009 says why this is not controller-runtime's filter.
type access struct {
	log     logr.Logger
	tokens  authentication.TokenReviewInterface
	reviews authorization.SubjectAccessReviewInterface
	handler http.Handler
	// permissions and refusals are caches of decisions.
	permissions, refusals *lru.LRUExpireCache
	// sources has a *rate.Limiter for each recent source address.
	sources *lru.LRUExpireCache
	mutex   sync.Mutex
	// slots has an entry for each running review.
	slots               chan struct{}
	queueing, reviewing time.Duration
}

// errBusy means that one source address has sent too many requests for metrics, or that a request has waited too long for the start of its reviews.
var errBusy = errors.New("too many concurrent requests")

// withAccess returns the filter for a metrics server.
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
			permissions: lru.NewLRUExpireCache(maxPermissions), refusals: lru.NewLRUExpireCache(maxRefusals), sources: lru.NewLRUExpireCache(maxSources),
			slots: make(chan struct{}, reviews), queueing: queueing, reviewing: reviewing,
		}, nil
	}, nil
}

// ServeHTTP responds 401 to unauthenticated and 403 to unauthorized clients. It responds 500 if the API server does not answer, and 503 for errBusy.
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
		// Do not log this error, because a client that floods the endpoint must not flood the log.
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
	// Hash, so that no token stays in memory.
	key := sha256.Sum256([]byte(verb + " " + path + " " + token))
	if _, known := a.permissions.Get(key); known {
		return http.StatusOK, nil
	}
	if stored, known := a.refusals.Get(key); known {
		if code, ok := stored.(int); ok {
			return code, nil
		}
	}
	if !a.allows(source) {
		return 0, errBusy
	}
	code, err := a.review(ctx, token, path, verb)
	switch {
	case err != nil:
		return 0, err
	case code == http.StatusOK:
		a.permissions.Add(key, code, allowedFor)
	default:
		a.refusals.Add(key, code, refusedFor)
	}
	return code, nil
}

// allows reports whether a source is within its rate limit.
func (a *access) allows(source string) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	stored, _ := a.sources.Get(source)
	limit, known := stored.(*rate.Limiter)
	if !known {
		limit = rate.NewLimiter(reviewRate, reviewBurst)
	}
	// The cache drops a limiter that is unused for this time. By then, the limiter would allow a full burst again, as a new limiter does.
	a.sources.Add(source, limit, reviewBurst/reviewRate*time.Second)
	return limit.Allow()
}

// review waits for a slot, and asks the API server.
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
	return a.authorize(ctx, token, path, verb)
}

func (a *access) authorize(ctx context.Context, token, path, verb string) (int, error) {
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
