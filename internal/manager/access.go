package manager

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
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
	// A refusal is believed for less long: whoever has just been given the right does not wait.
	refusedFor = 10 * time.Second
	// decisions bounds the memory that strangers can fill.
	decisions = 256
)

// access asks the API server who scrapes and whether they may, as kube-rbac-proxy does: TokenReview, then
// SubjectAccessReview on the path. Why it is not controller-runtime's filter: docs/decisions/0009.
type access struct {
	log     logr.Logger
	tokens  authentication.TokenReviewInterface
	rights  authorization.SubjectAccessReviewInterface
	known   *lru.LRUExpireCache
	handler http.Handler
}

// withAccess makes the filter of a metrics server.
func withAccess(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	tokens, err := authentication.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("client for TokenReviews: %w", err)
	}
	rights, err := authorization.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("client for SubjectAccessReviews: %w", err)
	}
	return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
		return &access{
			log: log, tokens: tokens.TokenReviews(), rights: rights.SubjectAccessReviews(),
			known: lru.NewLRUExpireCache(decisions), handler: handler,
		}, nil
	}, nil
}

// ServeHTTP answers 401 to whom the API server does not know, 403 to whom it does not allow, 500 if it does not answer.
func (a *access) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	token, isBearer := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !isBearer || token == "" {
		http.Error(response, "Unauthorized: a bearer token is needed", http.StatusUnauthorized)
		return
	}
	code, err := a.decide(request.Context(), token, request.URL.Path, strings.ToLower(request.Method))
	switch {
	case err != nil:
		a.log.Error(err, "decide about a request for metrics")
		http.Error(response, "Internal Server Error: the API server can't be asked", http.StatusInternalServerError)
	case code != http.StatusOK:
		http.Error(response, http.StatusText(code), code)
	default:
		a.handler.ServeHTTP(response, request)
	}
}

func (a *access) decide(ctx context.Context, token, path, verb string) (int, error) {
	// The hash keeps tokens out of memory.
	key := sha256.Sum256([]byte(verb + " " + path + " " + token))
	if stored, known := a.known.Get(key); known {
		if code, ok := stored.(int); ok {
			return code, nil
		}
	}
	code, err := a.ask(ctx, token, path, verb)
	if err != nil {
		return 0, err
	}
	keep := refusedFor
	if code == http.StatusOK {
		keep = allowedFor
	}
	a.known.Add(key, code, keep)
	return code, nil
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
	answer, err := a.rights.Create(ctx, question, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the rights of %s: %w", user.Username, err)
	}
	if !answer.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
