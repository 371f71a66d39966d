package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/efs"
)

// Tagger changes the tags of what is in EFS. Tags that are not named stay.
type Tagger interface {
	// Tag adds tags to a file system or an access point, or gives them other values.
	Tag(ctx context.Context, id string, tags Tags) error
	// Untag removes the tags with these keys. It is no error if there are none.
	Untag(ctx context.Context, id string, keys ...string) error
}

// Tag adds tags, or gives them other values. AWS refuses a request without any.
func (c *Client) Tag(ctx context.Context, id string, tags Tags) error {
	if len(tags) == 0 {
		return nil
	}
	_, err := c.efs.TagResource(ctx, &efs.TagResourceInput{ResourceId: &id, Tags: efsTags(tags)})
	return failedIf("elasticfilesystem:TagResource", id, err)
}

// Untag removes tags.
func (c *Client) Untag(ctx context.Context, id string, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := c.efs.UntagResource(ctx, &efs.UntagResourceInput{ResourceId: &id, TagKeys: keys})
	return failedIf("elasticfilesystem:UntagResource", id, err)
}
