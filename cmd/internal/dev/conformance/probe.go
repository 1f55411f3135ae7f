package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"opsgate/proto/contract"
)

// A probe is one run of a check. It builds requests of the check's method and calls the services.
type probe struct {
	*subject
	ctx    context.Context
	method contract.Method
	// own is the team that calls, and other is the other team of the fixtures.
	own, other Team
}

// of returns a probe of another method, for the same teams.
func (p *probe) of(method string) *probe {
	m, err := contract.MethodNamed(method)
	must(err)
	changed := *p
	changed.method = m
	return &changed
}

// ofOtherTeam returns a probe for which the other team calls.
func (p *probe) ofOtherTeam() *probe {
	changed := *p
	changed.own, changed.other = p.other, p.own
	return &changed
}

// kind returns the kind of resource that requests name, or "".
func (p *probe) kind() string { return p.method.Resource() }

// request returns a valid request of the own team with the changes.
func (p *probe) request(changes fields) proto.Message {
	target := contract.Target{Team: p.own.ID, Since: p.Clock().Add(-24 * time.Hour)}
	if _, given := changes[idField(p.method)]; !given {
		target.Resource = p.resource()
	}
	r := p.method.ReadRequest(target)
	for name, value := range p.validFields() {
		if p.method.HasRequestField(name) {
			set(r, name, value)
		}
	}
	return changes.applyTo(r)
}

// attempt makes a valid call with the changes.
func (p *probe) attempt(changes fields) (proto.Message, error) {
	return p.send(p.ctx, p.request(changes))
}

// call is an attempt that has to succeed.
func (p *probe) call(changes fields) proto.Message {
	response, err := p.attempt(changes)
	must(err)
	return response
}

// send calls the method.
func (p *probe) send(ctx context.Context, request proto.Message) (proto.Message, error) {
	response := p.method.NewResponse()
	return response, p.conns[p.method.Service()].Invoke(ctx, p.method.Path(), request, response)
}

// call calls another method, which has to succeed.
func call[R proto.Message](p *probe, method string, changes fields) R {
	return as[R](p.of(method).call(changes))
}

// as returns a message as its own type.
func as[M proto.Message](m proto.Message) M {
	typed, _ := m.(M)
	return typed
}

// ended is the panic with which a check ends early.
type ended struct{ err error }

// must ends the check if err is not nil, as testing.T.FailNow ends a test: [try] returns the error.
// Only checks may call it, in their own goroutine.
func must(err error) {
	if err != nil {
		panic(ended{err})
	}
}

// require ends the check with a breach unless ok is set.
func require(ok bool, want, format string, args ...any) {
	if !ok {
		must(expected(want, format, args...))
	}
}

// needs ends the check as not proved unless ok is set: [lacks].
func needs(ok bool, format string, args ...any) {
	if !ok {
		must(lacks(format, args...))
	}
}

// try returns the error with which a part of a check ends, or nil.
func try(part func()) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			e, ok := cause.(ended)
			if !ok {
				panic(cause)
			}
			err = e.err
		}
	}()
	part()
	return nil
}

// forBothTeams runs the check with each team as the own one, and returns the breaches of both.
func (p *probe) forBothTeams(check func(p *probe)) {
	must(errors.Join(try(func() { check(p) }), try(func() { check(p.ofOtherTeam()) })))
}

// retryOnChange runs a check on data that other clients may change. If the check fails and the
// state has changed meanwhile, it runs the check again, up to five times.
func retryOnChange(state func() []string, check func(state []string)) {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		before := state()
		err := try(func() { check(before) })
		if err == nil {
			return
		}
		if attempt == attempts || slices.Equal(before, state()) {
			must(err)
		}
	}
}
