package ratelimit

import (
	"cmp"
	"fmt"
	"time"
)

// An Assignment is a policy and the tokens and teams that have it. The most specific assignment of
// a token applies: that of the token, else of its team, else of the class with the token, else of
// the class with the team, else of the class that the identity service names, else the default.
type Assignment struct {
	Policy *Policy
	// Class is "default", "team", "token" or the name of a class. It is a label of metrics.
	Class string
	// Teams and Tokens are ids; none for the default.
	Teams, Tokens []string

	Key    string // of the configuration: rate_limit.classes.partner
	Origin string // of the key: opsgate.yaml:12

	Owner, Reason string    // of an override, as configured; may be empty
	Expires       time.Time // when it ends; zero for never

	index int
}

// Index returns the index of the assignment in [Policies.All].
func (a *Assignment) Index() int { return a.index }

// Policies are the assignments of a configuration. They never change.
type Policies struct {
	all                       []*Assignment
	byToken, byTeam           map[string]*Assignment
	classByToken, classByTeam map[string]*Assignment
	classByName               map[string]*Assignment // with the default
}

// The classes of assignments beside the configured ones.
const (
	ClassDefault = "default"
	ClassTeam    = "team"
	ClassToken   = "token"
)

// NewPolicies returns the policies of a default and of other assignments. No team or token may be
// in two assignments of the same kind.
func NewPolicies(def Assignment, others ...Assignment) (*Policies, error) {
	def.Class = ClassDefault
	p := &Policies{
		all: []*Assignment{&def}, byToken: map[string]*Assignment{}, byTeam: map[string]*Assignment{},
		classByToken: map[string]*Assignment{}, classByTeam: map[string]*Assignment{},
		classByName: map[string]*Assignment{ClassDefault: &def},
	}
	for _, a := range others {
		a.index = len(p.all)
		p.all = append(p.all, &a)
		tokens, teams := p.classByToken, p.classByTeam
		switch a.Class {
		case ClassDefault:
			return nil, fmt.Errorf("%s: there must be only one default", a.Key)
		case ClassToken, ClassTeam:
			tokens, teams = p.byToken, p.byTeam
		default:
			p.classByName[a.Class] = &a
		}
		if err := assign(&a, tokens, a.Tokens, "token"); err != nil {
			return nil, err
		}
		if err := assign(&a, teams, a.Teams, "team"); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func assign(a *Assignment, to map[string]*Assignment, ids []string, what string) error {
	for _, id := range ids {
		if other, taken := to[id]; taken {
			return fmt.Errorf("%s and %s both name the %s %s", other.Key, a.Key, what, id)
		}
		to[id] = a
	}
	return nil
}

// For returns the assignment of a token. The class is the name that the identity service states; ""
// for none. If there is no class of the name, the default applies.
func (p *Policies) For(teamID, tokenID, class string) *Assignment {
	return cmp.Or(p.byToken[tokenID], p.byTeam[teamID], p.classByToken[tokenID], p.classByTeam[teamID],
		p.classByName[class], p.all[0])
}

// Misses reports whether the default applies because there is no class of the name.
func (p *Policies) Misses(a *Assignment, class string) bool {
	return class != "" && a == p.all[0] && p.classByName[class] == nil
}

// All returns every assignment, the default first. It must not be modified.
func (p *Policies) All() []*Assignment { return p.all }
