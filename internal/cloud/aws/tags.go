package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/efs"
)

// Tagger changes tags of EFS objects. A call leaves all tags unchanged that it does not name.
type Tagger interface {
	// Tag sets tags of a file system or an access point.
	Tag(ctx context.Context, id string, tags Tags) error
	// Untag removes the tags with these keys, if they exist.
	Untag(ctx context.Context, id string, keys ...string) error
}

// Tag sends no request if there are no tags, because AWS rejects such a request.
func (c *Client) Tag(ctx context.Context, id string, tags Tags) error {
	if len(tags) == 0 {
		return nil
	}
	_, err := c.efs.TagResource(ctx, &efs.TagResourceInput{ResourceId: &id, Tags: efsTags(tags)})
	return failedIf("elasticfilesystem:TagResource", id, err)
}

// Untag removes the tags with these keys.
func (c *Client) Untag(ctx context.Context, id string, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := c.efs.UntagResource(ctx, &efs.UntagResourceInput{ResourceId: &id, TagKeys: keys})
	return failedIf("elasticfilesystem:UntagResource", id, err)
}
