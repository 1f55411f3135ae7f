package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"opsgate/gateway/apidocs/samples"
	"opsgate/gateway/openapi"
)

// A group is a page of the reference: the operations of one tag.
type group struct {
	Tag, Path, Text string
	Operations      []operationView
}

// An operationView is what the page of a group shows of one operation.
type operationView struct {
	ID, Tag, Summary, Method, Path string
	Scope                          string // empty if none is needed
	Deprecated                     bool
	Text                           string
	Parameters                     []field
	Request                        *shape
	Body                           string // shortest example of the request body, indented
	Response                       responseView
	Errors                         []errorView
	Samples                        []sample
	Answer                         string // response to the samples, with its status line and headers
}

// A sample is the code of a call in one language.
type sample struct {
	samples.Language
	Code string
}

// A responseView is the response of a successful request.
type responseView struct {
	Status, Text string
	Body         shape
	Headers      []headerView
}

type headerView struct{ Name, Anchor, Text string }

// An errorView is an error that an operation can answer.
type errorView struct{ Status, Code, Text string }

// groups returns the operations by tag, in the order of the document.
func (s *site) groups() ([]group, error) {
	var groups []group
	for _, tag := range s.document.Tags {
		groups = append(groups, group{
			Tag: tag.Name, Path: "/docs/reference/" + slug(tag.Name) + "/", Text: strings.TrimSpace(tag.Description),
		})
	}
	for _, o := range s.document.Operations {
		view, err := operation(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.ID, err)
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.Tag == view.Tag })
		if i < 0 {
			return nil, fmt.Errorf("%s has the tag %q, which the document does not list", view.ID, view.Tag)
		}
		groups[i].Operations = append(groups[i].Operations, view)
	}
	return slices.DeleteFunc(groups, func(g group) bool { return len(g.Operations) == 0 }), nil // the tag of webhooks
}

func operation(o openapi.Operation) (operationView, error) {
	v := operationView{ID: o.ID, Summary: o.Summary, Method: o.Method, Path: o.Path, Scope: o.Scope,
		Deprecated: o.Deprecated}
	if len(o.Tags) > 0 {
		v.Tag = o.Tags[0]
	}
	v.Text, _, _ = strings.Cut(o.Description, "\n\nNeeds ") // the page shows the scope in another place
	v.Text = strings.TrimSpace(v.Text)
	sent := place{prefix: v.ID, sent: true}
	for _, p := range o.Parameters {
		f := newField(p.Name, p.Schema, sent)
		f.In, f.Note, f.Example, f.Text = p.In, sent.note(p.Required), p.Example, strings.TrimSpace(p.Description)
		v.Parameters = append(v.Parameters, f)
	}
	if body := o.RequestBody.Content.JSON.Schema; body.Type != nil {
		v.Request = new(newShape(body, sent))
	}
	return v, errors.Join(v.addSamples(), v.addResponses(o.Responses))
}

// addSamples adds the samples, the body of the form, and the recorded answer. An operation that is
// being added may have none yet: a test requires them, and the other pages do not depend on them.
func (o *operationView) addSamples() error {
	request, ok := samples.Requests()[o.ID]
	if !ok {
		return nil
	}
	for _, language := range samples.Languages() {
		o.Samples = append(o.Samples, sample{language, strings.TrimSpace(samples.Render(language.ID, request))})
	}
	answer, _ := samples.Answer(o.ID)
	o.Answer = strings.TrimSpace(answer)
	if request.Body == "" {
		return nil
	}
	var body bytes.Buffer
	err := json.Indent(&body, []byte(request.Body), "", "  ")
	o.Body = body.String()
	return err
}

func (o *operationView) addResponses(responses openapi.Ordered[openapi.Message]) error {
	for _, r := range responses {
		text := strings.TrimSpace(r.Value.Description)
		switch {
		case r.Name < "300":
			at := place{prefix: o.ID + ".response"}
			o.Response = responseView{Status: r.Name, Text: text, Body: newShape(r.Value.Content.JSON.Schema, at)}
			for _, h := range r.Value.Headers {
				header := headerView{h.Name, at.prefix + "-" + slug(h.Name), strings.TrimSpace(h.Value.Description)}
				o.Response.Headers = append(o.Response.Headers, header)
			}
		case r.Name >= "400":
			code, err := errorCode(r.Value)
			if err != nil {
				return fmt.Errorf("response %s: %w", r.Name, err)
			}
			o.Errors = append(o.Errors, errorView{r.Name, code, strings.TrimPrefix(text, "`"+code+"`: ")})
		}
	}
	return nil
}

// errorCode returns the code of an error response: that of its first example.
func errorCode(resp openapi.Message) (string, error) {
	examples := resp.Content.JSON.Examples
	if len(examples) == 0 {
		return "", errors.New("it has no example")
	}
	var e struct{ Code string }
	err := json.Unmarshal(examples[0].Value.Value, &e)
	return e.Code, err
}

// A schemaView is a component on the page of schemas.
type schemaView struct {
	Name   string
	Type   string
	Text   string
	Values []string
	Open   bool
	Fields []field
}

// schemas returns the components that have fields or values of their own.
func (s *site) schemas() (views []schemaView) {
	for _, component := range s.document.Components.Schemas {
		schema := component.Value
		closed := schema.AdditionalProperties != nil && schema.AdditionalProperties.Never
		body := newShape(schema, place{prefix: component.Name, sent: closed})
		values, open := values(schema)
		if len(body.Fields)+len(values) == 0 {
			continue
		}
		views = append(views, schemaView{
			Name: component.Name, Type: body.Type, Text: description(schema), Values: values, Open: open, Fields: body.Fields,
		})
	}
	return views
}
