package vsphere

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	pbmtypes "github.com/vmware/govmomi/pbm/types"
)

// Writer changes objects of the cluster in one vCenter. Each call makes one change, without retries. All errors are *Error. After NoConnection or
// Timeout, the vCenter may still have made the change, so the caller must look for the object by its name.
type Writer interface {
	// CreateCategory creates a tag category, and returns its ID.
	CreateCategory(ctx context.Context, category Category) (id string, err error)
	DeleteCategory(ctx context.Context, id string) error
	CreateTag(ctx context.Context, tag Tag) (id string, err error)
	DeleteTag(ctx context.Context, id string) error
	Attach(ctx context.Context, tagID string, objects []Ref) error
	Detach(ctx context.Context, tagID string, objects []Ref) error
	// Attached returns all objects with a tag. Callers use it before they delete the tag.
	Attached(ctx context.Context, tagID string) ([]Ref, error)
	CreatePolicy(ctx context.Context, policy Policy) (id string, err error)
	DeletePolicy(ctx context.Context, id string) error
	// InUse returns the number of objects with a policy, such as volumes. Callers use it before they delete the policy.
	InUse(ctx context.Context, policyID string) (int, error)
}

// writer makes changes in the session of a client. If the object of a deletion does not exist, the deletion succeeds.
type writer struct{ *client }

func (w writer) CreateCategory(ctx context.Context, category Category) (id string, err error) {
	spec := restCategory{Name: category.Name, Description: category.Description, Cardinality: category.Cardinality, Types: []string{}}
	for _, kind := range category.Types {
		spec.Types = append(spec.Types, typePrefix+kind)
	}
	err = w.rest(ctx, "create the tag category "+category.Name, restCall{
		method: http.MethodPost, path: categoriesPath, body: map[string]restCategory{"create_spec": spec}, into: &id,
	})
	return id, err
}

func (w writer) DeleteCategory(ctx context.Context, id string) error {
	return w.delete(ctx, "delete a tag category", categoriesPath+"/id:"+id)
}

func (w writer) CreateTag(ctx context.Context, tag Tag) (id string, err error) {
	spec := restTag{Name: tag.Name, Description: tag.Description, CategoryID: tag.CategoryID}
	err = w.rest(ctx, "create the tag "+tag.Name, restCall{
		method: http.MethodPost, path: tagsPath, body: map[string]restTag{"create_spec": spec}, into: &id,
	})
	return id, err
}

func (w writer) DeleteTag(ctx context.Context, id string) error {
	return w.delete(ctx, "delete a tag", tagsPath+"/id:"+id)
}

func (w writer) delete(ctx context.Context, what, path string) error {
	err := w.rest(ctx, what, restCall{method: http.MethodDelete, path: path})
	if failure, is := err.(*Error); is && failure.Status == http.StatusNotFound { //nolint:errorlint // rest does not wrap it.
		return nil
	}
	return err
}

func (w writer) Attach(ctx context.Context, tagID string, objects []Ref) error {
	const what = "attach a tag"
	var answer struct {
		Success *bool             `json:"success"`
		Errors  []json.RawMessage `json:"error_messages"`
	}
	err := w.rest(ctx, what, restCall{
		method: http.MethodPost, path: associationsPath + "/id:" + tagID, action: "attach-tag-to-multiple-objects", into: &answer, maybe: true,
		body: map[string][]restObject{"object_ids": asREST(objects)},
	})
	if err == nil && (len(answer.Errors) > 0 || answer.Success != nil && !*answer.Success) {
		why := fmt.Sprintf("at least one of %d objects did not get the tag: %s", len(objects), advicePrivileges)
		return w.fail(what, &Error{Reason: NotAuthorized, Why: why})
	}
	return err
}

// Detach sends one request per object, because only some versions can detach a tag from several objects in one request.
func (w writer) Detach(ctx context.Context, tagID string, objects []Ref) error {
	for _, object := range asREST(objects) {
		err := w.rest(ctx, "detach a tag", restCall{
			method: http.MethodPost, path: associationsPath + "/id:" + tagID, action: "detach", body: map[string]restObject{"object_id": object},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w writer) Attached(ctx context.Context, tagID string) ([]Ref, error) {
	found, err := w.attachments(ctx, []string{tagID})
	objects := make([]Ref, 0, len(found))
	for _, one := range found {
		objects = append(objects, one.Object)
	}
	return objects, err
}

func asREST(refs []Ref) []restObject {
	objects := make([]restObject, 0, len(refs))
	for _, ref := range refs {
		objects = append(objects, restObject{Type: ref.Type, ID: ref.Value})
	}
	return objects
}

func (w writer) CreatePolicy(ctx context.Context, policy Policy) (id string, err error) {
	service, err := w.policies(ctx)
	if err != nil {
		return "", err
	}
	made, err := service.CreateProfile(ctx, pbmtypes.PbmCapabilityProfileCreateSpec{
		Name: policy.Name, Description: policy.Description, Category: policiesOfUsers, Constraints: rulesOf(policy.Tags),
		ResourceType: pbmtypes.PbmProfileResourceType{ResourceType: string(pbmtypes.PbmProfileResourceTypeEnumSTORAGE)},
	})
	if err != nil {
		return "", w.fail("create the storage policy "+policy.Name, err)
	}
	return made.UniqueId, nil
}

func (w writer) DeletePolicy(ctx context.Context, id string) error {
	const what = "delete a storage policy"
	service, err := w.policies(ctx)
	if err != nil {
		return err
	}
	outcomes, err := service.DeleteProfile(ctx, []pbmtypes.PbmProfileId{{UniqueId: id}})
	if err != nil {
		return w.fail(what, err)
	}
	for _, outcome := range outcomes {
		if outcome.Fault == nil {
			continue
		}
		if _, gone := outcome.Fault.Fault.(*pbmtypes.PbmFaultNotFound); gone {
			continue
		}
		failure := &Error{}
		faulted(failure, outcome.Fault.Fault)
		return w.fail(what, failure)
	}
	return nil
}

func (w writer) InUse(ctx context.Context, policyID string) (int, error) {
	service, err := w.policies(ctx)
	if err != nil {
		return 0, err
	}
	found, err := service.QueryAssociatedEntities(ctx, []pbmtypes.PbmProfileId{{UniqueId: policyID}})
	if err != nil {
		return 0, w.fail("list the objects with a storage policy", err)
	}
	return len(found), nil
}
