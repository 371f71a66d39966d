package fakevsphere

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"
)

// restPath begins all paths of the automation API that are served.
const restPath = "/rest/com/vmware/cis/"

// Errors of the automation API, with the status of each (vSphere Automation API reference, "Standard errors").
const (
	alreadyExists   = "already_exists"
	invalidArgument = "invalid_argument"
	notFound        = "not_found"
	unauthenticated = "unauthenticated"
	unauthorized    = "unauthorized"
)

// refusal is an error of the automation API; empty if there is none.
type refusal string

func (r refusal) status() int {
	switch r {
	case notFound:
		return http.StatusNotFound
	case unauthenticated:
		return http.StatusUnauthorized
	case unauthorized:
		return http.StatusForbidden
	default:
		return http.StatusBadRequest
	}
}

// restHandler routes the automation API by what operation tells.
func (v *VCenter) restHandler() http.Handler {
	routes := map[string]func(call) (any, refusal){
		"category.list": v.categoryList, "category.get": v.categoryGet, "category.create": v.categoryCreate, "category.delete": v.categoryDelete,
		"tag.list": v.tagList, "tag.get": v.tagGet, "tag.create": v.tagCreate, "tag.delete": v.tagDelete,
		"tag.list-tags-for-category": v.tagsForCategory,
		"tag-association.attach":     v.attach, "tag-association.attach-tag-to-multiple-objects": v.attachMany, "tag-association.detach": v.detach,
		"tag-association.list-attached-objects-on-tags": v.attachedObjectsOnTags,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, id := operation(r)
		if kind == "session.create" {
			v.sessionCreate(w, r)
			return
		}
		user, token, signedIn := v.session(r)
		if !signedIn {
			answer(w, nil, unauthenticated)
			return
		}
		switch kind {
		case "session.get":
			answer(w, map[string]any{"user": user, "created_time": "2026-01-02T03:04:05.678Z", "last_accessed_time": "2026-01-02T03:04:05.678Z"}, "")
			return
		case "session.delete":
			v.set(func() {
				delete(v.tokens, token)
				v.logins["REST logouts"]++
			})
			answer(w, nil, "")
			return
		}
		route, known := routes[kind]
		if !known {
			answer(w, nil, notFound)
			return
		}
		in := call{user: user, id: id}
		if r.Method == http.MethodPost {
			// Fields that the API does not have are refused, as a vCenter does. Some have no body.
			decoder := json.NewDecoder(r.Body)
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&in.body); err != nil && !errors.Is(err, io.EOF) {
				answer(w, nil, invalidArgument)
				return
			}
		}
		value, refused := route(in)
		answer(w, value, refused)
	})
}

// operation is the name of an operation of the automation API, such as "tag.create", and the ID in the path. Others are "METHOD path".
func operation(r *http.Request) (kind, id string) {
	path, known := strings.CutPrefix(r.URL.Path, restPath)
	resource, id, single := strings.Cut(strings.TrimPrefix(path, "tagging/"), "/id:")
	if !known || !slices.Contains([]string{"session", "category", "tag", "tag-association"}, resource) {
		return r.Method + " " + r.URL.Path, ""
	}
	if action := r.URL.Query().Get("~action"); action != "" && r.Method == http.MethodPost {
		return resource + "." + action, id
	}
	switch {
	case r.Method == http.MethodDelete:
		return resource + ".delete", id
	case r.Method == http.MethodGet && single:
		return resource + ".get", id
	case r.Method == http.MethodGet:
		return resource + ".list", id
	case r.Method == http.MethodPost && !single:
		return resource + ".create", id
	default:
		return r.Method + " " + r.URL.Path, id
	}
}

// sessionCreate logs in with user and password. The header is the only place for the ID that is read later.
func (v *VCenter) sessionCreate(w http.ResponseWriter, r *http.Request) {
	user, password, given := r.BasicAuth()
	good := given && v.valid(user, password)
	bytes := make([]byte, 16)
	_, _ = rand.Read(bytes)
	token := hex.EncodeToString(bytes)
	v.set(func() {
		if good {
			v.tokens[token] = user
			v.logins["REST logins"]++
		} else {
			v.logins["failed "+canonical(user)]++
		}
	})
	if !good {
		answer(w, nil, unauthenticated)
		return
	}
	answer(w, token, "")
}

// session is who a request comes from.
func (v *VCenter) session(r *http.Request) (user, token string, signedIn bool) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	token = r.Header.Get("vmware-api-session-id")
	user, signedIn = v.tokens[token]
	_, known := v.users[canonical(user)]
	return user, token, signedIn && known
}

// answer writes a value as /rest wraps it, or an error.
func answer(w http.ResponseWriter, value any, refused refusal) {
	w.Header().Set("Content-Type", "application/json")
	body := map[string]any{}
	if value != nil {
		body["value"] = value
	}
	if refused != "" {
		body["type"] = "com.vmware.vapi.std.errors." + string(refused)
		body["value"] = map[string]any{"error_type": strings.ToUpper(string(refused)), "messages": []any{map[string]any{
			"args": []string{}, "id": "fake", "default_message": "It was refused.",
		}}}
		w.WriteHeader(refused.status())
	}
	text, _ := json.Marshal(body)
	_, _ = w.Write(text)
}

// call is a request of the automation API.
type call struct {
	user, id string
	body     struct {
		Create     *createSpec `json:"create_spec"`
		CategoryID string      `json:"category_id"`
		Object     *moid       `json:"object_id"`
		Objects    []moid      `json:"object_ids"`
		Tags       []string    `json:"tag_ids"`
	}
}

// createSpec is that of a category or a tag. All of its fields must be sent, also where they are empty.
type createSpec struct {
	Name        *string   `json:"name"`
	Description *string   `json:"description"`
	Cardinality *string   `json:"cardinality"`
	Types       *[]string `json:"associable_types"`
	CategoryID  *string   `json:"category_id"`
}

// moid is how the automation API names an object.
type moid struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

func (o moid) ref() types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: o.Type, Value: o.ID}
}
