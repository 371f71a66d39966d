package env

import "context"

// LoadImages gives all real nodes the images of an OCI archive.
func (c *Cluster) LoadImages(ctx context.Context, archive string) error {
	_, err := c.run(ctx, "load-images", "--dir", c.Dir, archive)
	return err
}
