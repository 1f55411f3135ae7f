package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"opsgate/cmd/internal/gate/admin"
	"opsgate/internal/uuid"
)

// tokenID returns the id of the token that an operator named by its id, or by a text that is in the
// names of only one cached token.
func (c *adminClient) tokenID(ctx context.Context, text string) (string, error) {
	if _, isID := uuid.Canonical(text); isID {
		return text, nil
	}
	var found admin.FoundTokens
	if err := c.read(ctx, "/admin/tokens?"+url.Values{"q": {text}}.Encode(), &found); err != nil {
		return "", fmt.Errorf("search the token: %w", err)
	}
	switch len(found.Tokens) {
	case 0:
		return "", fmt.Errorf("%s has cached no token with %q in its name or its team's name; use its id", c.base, text)
	case 1:
		return found.Tokens[0].TokenID, nil
	}
	lines := []string{fmt.Sprintf("%d cached tokens have %q in their name or their team's name; use one of these ids:",
		found.Total, text)}
	for _, t := range found.Tokens {
		lines = append(lines, named(t.TokenID, t.TokenName)+" of team "+named(t.TeamID, t.TeamName))
	}
	if more := found.Total - len(found.Tokens); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return "", fmt.Errorf("%s", strings.Join(lines, "\n  "))
}

// named returns an id with its name, if that is known.
func named(id, name string) string {
	if name == "" {
		return id
	}
	return id + " (" + isolated(name) + ")"
}

// names returns the names of ids in one request.
func (c *adminClient) names(ctx context.Context, ids []string) (names map[string]string, err error) {
	text, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	body, err := c.check(c.do(ctx, http.MethodPost, "/admin/names", nil, bytes.NewReader(text)))
	if err != nil {
		return nil, err
	}
	return names, json.Unmarshal(body, &names)
}
