package openstack

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// service is an OpenStack service.
type service struct {
	// name is the name of the service in metrics. Field "what" is the name of the service in messages.
	name, what string
	// types are the service's types in catalogues, the preferred type first. The list has the types of OpenStack's service types authority, and types
	// that older clouds use.
	types        []string
	microversion string
	// version is the API version that the service's address must name. An address that names no version is accepted, too.
	version string
}

// endpoint finds a service in the catalogue. It returns an empty text if the catalogue lacks the service. If the catalogue lacks the whole region,
// endpoint returns an error, because such a catalogue does not show whether the service exists.
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
			Do: "correct region_name in clouds.yaml, or add the region to the service catalogue",
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
					return "", missing(of, c.credentials.AuthURL, "valid URL of the service")
				}
				return gophercloud.NormalizeURL(endpoint.URL), nil
			}
		}
	}
	return "", nil
}

// speaks reports whether the address has the required version, or no version. Catalogues can still have Cinder v2 and Manila v1 under the names of
// newer versions.
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
