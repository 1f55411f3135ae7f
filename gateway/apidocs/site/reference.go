package site

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"opsgate/gateway/apidocs/answers"
	"opsgate/gateway/apidocs/samples"
	"opsgate/gateway/openapi"
)

// A group is a page of the reference: the operations of one tag.
type group struct {
	Tag, Path, Text string
	HTML            template.HTML
	Operations      []operationView
}

// An operationView is what the page of a group shows of one operation.
type operationView struct {
	ID, Tag, Summary, Method, Path string
	Scope                          string // empty if none is needed
	Deprecated                     bool
	Text                           string
	HTML                           template.HTML
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
	HTML         template.HTML
	Body         shape
	Headers      []headerView
}

type headerView struct {
	Name, Anchor, Text string
	HTML               template.HTML
}

// An errorView is an error that an operation can answer.
type errorView struct {
	Status, Code, Text string
	HTML               template.HTML
}

// groups returns the operations by tag, in the order of the document.
func (s *site) groups() ([]group, error) {
	var groups []group
	for _, tag := range s.document.Tags {
		html, err := s.markdown.text(tag.Description)
		if err != nil {
			return nil, err
		}
		groups = append(groups, group{
			Tag: tag.Name, Path: "/docs/reference/" + slug(tag.Name) + "/", Text: strings.TrimSpace(tag.Description), HTML: html,
		})
	}
	for _, o := range s.document.Operations {
		view, err := s.operation(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.ID, err)
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.Tag == view.Tag })
		if i < 0 {
			return nil, fmt.Errorf("%s has the tag %q, which the document does not list", view.ID, view.Tag)
		}
		groups[i].Operations = append(groups[i].Operations, view)
	}
	return groups, nil
}

func (s *site) operation(o openapi.Operation) (operationView, error) {
	v := operationView{ID: o.ID, Summary: o.Summary, Method: o.Method, Path: o.Path, Scope: o.Scope, Deprecated: o.Deprecated}
	if len(o.Tags) > 0 {
		v.Tag = o.Tags[0]
	}
	v.Text, _, _ = strings.Cut(o.Description, "\n\nNeeds ") // the page shows the scope in another place
	v.Text = strings.TrimSpace(v.Text)
	html, err := s.markdown.text(v.Text)
	if err != nil {
		return v, err
	}
	v.HTML = html
	sent := place{prefix: v.ID, sent: true}
	for _, p := range o.Parameters {
		f, err := s.field(p.Name, p.Schema, sent)
		if err != nil {
			return v, err
		}
		f.In, f.Note, f.Example, f.Text = p.In, sent.note(p.Required), p.Example, strings.TrimSpace(p.Description)
		if f.HTML, err = s.markdown.text(f.Text); err != nil {
			return v, err
		}
		v.Parameters = append(v.Parameters, f)
	}
	if body := o.RequestBody.Content.JSON.Schema; body.Type != nil {
		request, err := s.shape(body, sent)
		if err != nil {
			return v, err
		}
		v.Request = &request
	}
	return v, errors.Join(v.addSamples(), s.addResponses(&v, o.Responses))
}

// addSamples adds the samples, the body of the form, and the recorded answer. An operation that is being added may have none yet: a test
// requires them, and the other pages do not depend on them.
func (o *operationView) addSamples() error {
	request, ok := samples.Requests()[o.ID]
	if !ok {
		return nil
	}
	for _, language := range samples.Languages() {
		o.Samples = append(o.Samples, sample{language, strings.TrimSpace(samples.Render(language.ID, request))})
	}
	answer, _ := answers.Lookup(o.ID)
	o.Answer = strings.TrimSpace(answer)
	if request.Body == "" {
		return nil
	}
	var body bytes.Buffer
	err := json.Indent(&body, []byte(request.Body), "", "  ")
	o.Body = body.String()
	return err
}

func (s *site) addResponses(v *operationView, responses openapi.Ordered[openapi.Message]) error {
	for _, r := range responses {
		resp := r.Value
		html, err := s.markdown.text(resp.Description)
		if err != nil {
			return err
		}
		switch {
		case r.Name < "300":
			v.Response = responseView{Status: r.Name, Text: strings.TrimSpace(resp.Description), HTML: html}
			if err := s.fillResponse(&v.Response, resp, place{prefix: v.ID + ".response"}); err != nil {
				return err
			}
		case r.Name >= "400":
			e := errorView{Status: r.Name, Text: strings.TrimSpace(resp.Description)}
			if e.Code, err = errorCode(resp); err != nil {
				return fmt.Errorf("response %s: %w", r.Name, err)
			}
			e.Text = strings.TrimPrefix(e.Text, "`"+e.Code+"`: ")
			if e.HTML, err = s.markdown.text(e.Text); err != nil {
				return err
			}
			v.Errors = append(v.Errors, e)
		}
	}
	return nil
}

func (s *site) fillResponse(v *responseView, resp openapi.Message, at place) error {
	body, err := s.shape(resp.Content.JSON.Schema, at)
	if err != nil {
		return err
	}
	v.Body = body
	for _, h := range resp.Headers {
		text := strings.TrimSpace(h.Value.Description)
		html, err := s.markdown.text(text)
		if err != nil {
			return err
		}
		v.Headers = append(v.Headers, headerView{h.Name, at.prefix + "-" + slug(h.Name), text, html})
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
	HTML   template.HTML
	Values []string
	Open   bool
	Fields []field
}

// schemas returns the components that have fields or values of their own.
func (s *site) schemas() ([]schemaView, error) {
	var views []schemaView
	for _, component := range s.document.Components.Schemas {
		schema := component.Value
		closed := schema.AdditionalProperties != nil && schema.AdditionalProperties.Never
		body, err := s.shape(schema, place{prefix: component.Name, sent: closed})
		if err != nil {
			return nil, err
		}
		values, open := values(schema)
		if len(body.Fields)+len(values) == 0 {
			continue
		}
		v := schemaView{
			Name: component.Name, Type: body.Type, Text: description(schema),
			Values: values, Open: open, Fields: body.Fields,
		}
		if v.HTML, err = s.markdown.text(v.Text); err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}
