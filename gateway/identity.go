package gateway

import (
	"net/http"

	"opsgate/authn"
	"opsgate/gateway/jsonw"
)

func (a *api) identityRoutes() []Route {
	return []Route{
		{ID: "v1Me", Method: http.MethodGet, Path: "/v1/me", Scope: anyToken, Handle: a.me},
	}
}

func (a *api) me(r *Request) (Reply, error) {
	return show(meView(r.principal))
}

func meView(p *authn.Principal) View {
	return func(w *jsonw.Writer) {
		w.BeginObject()
		w.String("teamId", p.TeamID)
		w.String("tokenId", p.TokenID)
		w.Strings("scopes", p.Scopes.Strings())
		w.EndObject()
	}
}
