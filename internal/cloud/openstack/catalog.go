package openstack

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// service is one of the cloud's.
type service struct {
	// name is for metrics, what for errors.
	name, what string
	// types are what it is called in catalogues, the best first (the service types authority, and what older clouds have).
	types        []string
	microversion string
	// version is what the address must have if it has any.
	version string
}

// endpoint finds a service in the catalogue; empty if it is not there. A region that the catalogue does not know at all is an error: what
// the service offers is not known then.
func (c *Client) endpoint(of service) (string, error) {
	regions := map[string]bool{}
	for _, entry := range c.session.catalog {
		for _, endpoint := range entry.Endpoints {
			regions[endpoint.Region], regions[endpoint.RegionID] = true, true
		}
	}
	region := c.credentials.Region
	if region != "" && !regions[region] {
		return "", &Error{
			What: of.what, Where: place(c.credentials.AuthURL), Reason: ServiceMissing, Why: "the service catalogue has no region " + region,
			Do: "correct region_name in clouds.yaml, or the catalogue",
		}
	}
	for _, kind := range of.types {
		for _, entry := range c.session.catalog {
			if entry.Type != kind {
				continue
			}
			for _, endpoint := range entry.Endpoints {
				here := region == "" || endpoint.Region == region || endpoint.RegionID == region
				if !here || endpoint.Interface != c.credentials.Interface || !of.speaks(endpoint.URL) {
					continue
				}
				if place(endpoint.URL) == "" {
					return "", lacks(of, c.credentials.AuthURL, "address of the service that is a URL")
				}
				return gophercloud.NormalizeURL(endpoint.URL), nil
			}
		}
	}
	return "", nil
}

// speaks reports whether the address is not of another version. Cinder v2 and Manila v1 can still be in catalogues, under names that are
// also those of the newer ones.
func (s *service) speaks(address string) bool {
	parsed, err := url.Parse(address)
	if err != nil {
		return true
	}
	found := regexp.MustCompile(`/v(\d)[0-9.]*(/|$)`).FindStringSubmatch(parsed.Path)
	wanted := s.version
	if s.name == "cinder" {
		wanted = "v3"
	}
	return found == nil || wanted == "" || strings.TrimPrefix(wanted, "v") == found[1]
}
