package fakeaws

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

const (
	tagAction   = "elasticfilesystem:TagResource"
	untagAction = "elasticfilesystem:UntagResource"
)

// strict passes a call on as AWS would treat it.
func (p *Proxy) strict(call Call, r *http.Request, body []byte) *Answer {
	query := r.URL.Query()
	send := func() *Answer { return p.pass(r.Method, r.URL.RequestURI(), r.Header, body) }
	read := func(kind, key string) *Answer {
		return p.pass(http.MethodGet, "/2015-02-01/"+kind+"?"+url.Values{key: {call.Object}}.Encode(), r.Header, nil)
	}
	switch call.Action {
	case "elasticfilesystem:DescribeAccessPoints":
		return page(send(), query)
	case "elasticfilesystem:CreateAccessPoint":
		if id := p.pointOf(body, r.Header); id != "" {
			answer := Error(call.Action, http.StatusConflict, "AccessPointAlreadyExists", "access point "+id+" has this token")
			answer.Body, _ = json.Marshal(map[string]string{"ErrorCode": "AccessPointAlreadyExists", "AccessPointId": id})
			return answer
		}
	case "elasticfilesystem:DeleteAccessPoint":
		if p.deleted[call.Object] {
			return Error(call.Action, http.StatusNotFound, "AccessPointNotFound", "access point "+call.Object+" does not exist")
		}
		p.deleted[call.Object] = true
	case "elasticfilesystem:DeleteFileSystem":
		if points := read("access-points", "FileSystemId"); strings.Contains(string(points.Body), `"fsap-`) {
			return Error(call.Action, http.StatusConflict, "FileSystemInUse", "it has access points")
		}
		if targets := read("mount-targets", "FileSystemId"); strings.Contains(string(targets.Body), `"fsmt-`) {
			return Error(call.Action, http.StatusConflict, "FileSystemInUse", "it has mount targets")
		}
		return p.slowly(call, send)
	case "elasticfilesystem:DeleteMountTarget":
		return p.slowly(call, send)
	case "elasticfilesystem:CreateFileSystem", "elasticfilesystem:CreateMountTarget":
		return p.begin(send())
	case "elasticfilesystem:DescribeFileSystems":
		return p.look(call, send(), "FileSystems", "FileSystemId", "file-systems", r.Header)
	case "elasticfilesystem:DescribeMountTargets":
		return p.look(call, send(), "MountTargets", "MountTargetId", "mount-targets", r.Header)
	case tagAction, untagAction:
		// moto keeps tags of what there is not.
		kind, key := "file-systems", "FileSystemId"
		if strings.HasPrefix(call.Object, "fsap-") {
			kind, key = "access-points", "AccessPointId"
		}
		if object := read(kind, key); object.Status != http.StatusOK {
			return object
		}
	case "ec2:DeleteSecurityGroup":
		form := url.Values{"Action": {"DescribeNetworkInterfaces"}, "Version": {"2016-11-15"}, "Filter.1.Name": {"group-id"},
			"Filter.1.Value.1": {call.Object}}
		if users := p.pass(http.MethodPost, "/", r.Header, []byte(form.Encode())); strings.Contains(string(users.Body), ">eni-") {
			return Error(call.Action, http.StatusBadRequest, "DependencyViolation", "resource "+call.Object+" has a dependent object")
		}
	}
	return send()
}

// pointOf returns the access point that has the token of a request to create one. moto makes two with the same token.
func (p *Proxy) pointOf(body []byte, header http.Header) string {
	var wanted struct{ ClientToken string }
	var all struct {
		AccessPoints []struct{ AccessPointID, ClientToken string }
	}
	answer := p.pass(http.MethodGet, "/2015-02-01/access-points", header, nil)
	if json.Unmarshal(body, &wanted) != nil || json.Unmarshal(answer.Body, &all) != nil {
		return ""
	}
	for _, one := range all.AccessPoints {
		if one.ClientToken == wanted.ClientToken {
			return one.AccessPointID
		}
	}
	return ""
}

// slowly lets a deletion begin; looks end it.
func (p *Proxy) slowly(call Call, send func() *Answer) *Answer {
	_, begun := p.left[call.Object]
	if p.Slow == 0 || (begun && !p.coming[call.Object]) {
		return send()
	}
	p.left[call.Object], p.coming[call.Object] = p.Slow, false
	return &Answer{Status: http.StatusNoContent}
}

// begin lets a creation begin; looks end it.
func (p *Proxy) begin(answer *Answer) *Answer {
	var made map[string]any
	if p.Slow == 0 || answer.Status >= 300 || json.Unmarshal(answer.Body, &made) != nil {
		return answer
	}
	id, _ := made["MountTargetId"].(string)
	if id == "" {
		id, _ = made["FileSystemId"].(string)
	}
	p.left[id], p.coming[id] = p.Slow, true
	made["LifeCycleState"] = "creating"
	answer.Body, _ = json.Marshal(made)
	return answer
}

// look shows the states of what is coming or going, one look nearer to its end.
func (p *Proxy) look(call Call, answer *Answer, list, key, kind string, header http.Header) *Answer {
	var content map[string]any
	if len(p.left) == 0 || answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &content) != nil {
		return answer
	}
	objects, _ := content[list].([]any)
	shown := []any{}
	for _, object := range objects {
		fields, _ := object.(map[string]any)
		id, _ := fields[key].(string)
		left, changing := p.left[id]
		if !changing {
			shown = append(shown, object)
			continue
		}
		p.left[id] = left - 1
		switch {
		case p.coming[id] && left > 0:
			fields["LifeCycleState"] = "creating"
		case p.coming[id]:
			delete(p.left, id)
		case left > 0:
			fields["LifeCycleState"] = "deleting"
		default:
			p.pass(http.MethodDelete, "/2015-02-01/"+kind+"/"+id, header, nil)
			delete(p.left, id)
			continue
		}
		shown = append(shown, object)
	}
	if call.Object != "" && len(shown) == 0 && len(objects) > 0 && list == "FileSystems" {
		return Error(call.Action, http.StatusNotFound, "FileSystemNotFound", "file system "+call.Object+" does not exist")
	}
	content[list] = shown
	answer.Body, _ = json.Marshal(content)
	return answer
}
