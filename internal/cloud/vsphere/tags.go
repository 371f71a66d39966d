package vsphere

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Tag categories of regions and zones (openshift/vsphere-problem-detector b2f09a5b, pkg/check/zones.go).
const (
	RegionCategory = "openshift-region"
	ZoneCategory   = "openshift-zone"
)

const (
	categoriesPath   = "/tagging/category"
	tagsPath         = "/tagging/tag"
	associationsPath = "/tagging/tag-association"
	// typePrefix precedes object types in some versions of the API.
	typePrefix = "urn:vim25:"
	// tagLife is the time after which a cached category or tag expires. refreshed limits the expired categories, and the expired tags, that one poll
	// reads again. The limit exists because the API can't return several categories or tags in one request.
	tagLife   = time.Hour
	refreshed = 10
)

// OwnCategory returns the name of a cluster's own tag category (openshift/vmware-vsphere-csi-driver-operator 030ff0e3,
// pkg/operator/storageclasscontroller/vmware.go).
func OwnCategory(infrastructureID string) string { return "openshift-" + infrastructureID }

// tagCache caches categories and tags by ID.
type tagCache struct {
	categories map[string]cached[restCategory]
	tags       map[string]cached[restTag]
}

type cached[T any] struct {
	value T
	at    time.Time
}

// restCategory and restTag are types of the REST API.
type restCategory struct {
	ID          string   `json:"id,omitempty"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Cardinality string   `json:"cardinality"`
	Types       []string `json:"associable_types"`
}

type restTag struct {
	ID          string `json:"id,omitempty"`
	Name        string `json:"name"`
	Description string `json:"description"`
	CategoryID  string `json:"category_id"`
}

type restObject struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

func (c restCategory) category() Category {
	types := make([]string, 0, len(c.Types))
	for _, kind := range c.Types {
		types = append(types, strings.TrimPrefix(kind, typePrefix))
	}
	slices.Sort(types)
	return Category{ID: c.ID, Name: c.Name, Description: c.Description, Cardinality: c.Cardinality, Types: types}
}

// readTags reads all categories, the tags of the relevant categories, and the objects with these tags. If the cache has all categories and tags and
// none has expired, readTags sends two requests, and one for each relevant category.
func (c *client) readTags(ctx context.Context, names []string, now time.Time, into *VCenter) error {
	var ids []string
	if err := c.rest(ctx, "list the tag categories", restCall{method: http.MethodGet, path: categoriesPath, into: &ids}); err != nil {
		return err
	}
	if c.tags.categories == nil {
		c.tags = tagCache{categories: map[string]cached[restCategory]{}, tags: map[string]cached[restTag]{}}
	}
	categories, err := details(ctx, c, categoriesPath, ids, c.tags.categories, now)
	if err != nil {
		return err
	}
	evict(c.tags.categories, ids)
	var tagIDs []string
	for _, one := range categories {
		into.Categories = append(into.Categories, one.category())
		if !slices.Contains(names, one.Name) {
			continue
		}
		var found []string
		list := restCall{method: http.MethodPost, path: tagsPath + "/id:" + one.ID, action: "list-tags-for-category", into: &found}
		if err := c.rest(ctx, "list the tags", list); err != nil {
			return err
		}
		tagIDs = append(tagIDs, found...)
	}
	tags, err := details(ctx, c, tagsPath, tagIDs, c.tags.tags, now)
	if err != nil {
		return err
	}
	evict(c.tags.tags, tagIDs)
	for _, one := range tags {
		into.Tags = append(into.Tags, Tag(one))
	}
	slices.SortFunc(into.Categories, func(a, b Category) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	slices.SortFunc(into.Tags, func(a, b Tag) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	into.Attachments, err = c.attachments(ctx, tagIDs)
	return err
}

// details returns the categories or tags with these IDs. It reads the categories or tags that the cache lacks, and some that have expired in the
// cache. If it reaches the request limit, the cache keeps what it has read so far. It omits deleted categories and tags.
func details[T any](ctx context.Context, c *client, path string, ids []string, known map[string]cached[T], now time.Time) ([]T, error) {
	stale := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return now.Sub(known[id].at) < tagLife })
	slices.SortFunc(stale, func(a, b string) int { return known[a].at.Compare(known[b].at) })
	again := 0
	for _, id := range stale {
		if !known[id].at.IsZero() {
			if again++; again > refreshed {
				break
			}
		}
		var value T
		err := c.rest(ctx, "read a tag or category", restCall{method: http.MethodGet, path: path + "/id:" + id, into: &value})
		switch {
		case err != nil && ReasonOf(err) == Conflict:
			delete(known, id)
		case err != nil:
			return nil, err
		default:
			known[id] = cached[T]{value, now}
		}
	}
	var values []T
	for _, id := range ids {
		if one, found := known[id]; found {
			values = append(values, one.value)
		}
	}
	return values, nil
}

// evict removes deleted IDs from the cache.
func evict[T any](known map[string]cached[T], ids []string) {
	maps.DeleteFunc(known, func(id string, _ cached[T]) bool { return !slices.Contains(ids, id) })
}

// attachments reads the objects of all tags in one request.
func (c *client) attachments(ctx context.Context, tagIDs []string) ([]Attachment, error) {
	if len(tagIDs) == 0 {
		return nil, nil
	}
	var answer []struct {
		TagID   string       `json:"tag_id"`
		Objects []restObject `json:"object_ids"`
	}
	err := c.rest(ctx, "list the objects of tags", restCall{
		method: http.MethodPost, path: associationsPath, action: "list-attached-objects-on-tags",
		body: map[string][]string{"tag_ids": tagIDs}, into: &answer,
	})
	if err != nil {
		return nil, err
	}
	var found []Attachment
	for _, one := range answer {
		for _, object := range one.Objects {
			found = append(found, Attachment{TagID: one.TagID, Object: Ref{Type: object.Type, Value: object.ID}})
		}
	}
	slices.SortFunc(found, func(a, b Attachment) int {
		return cmp.Or(strings.Compare(a.TagID, b.TagID), compareRefs(a.Object, b.Object))
	})
	return found, nil
}
