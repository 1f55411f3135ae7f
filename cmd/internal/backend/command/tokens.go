package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"opsgate/authn"
	"opsgate/cmd/internal/backend/service"
	"opsgate/internal/commandline"
)

func teamCreateCommand(e Environment) *cobra.Command {
	var dir dataDir
	var plan string
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a team and print its id",
		RunE: func(c *cobra.Command, arguments []string) error {
			return dir.create(c.Context(), e, func(b *service.Backend) error {
				team, err := b.CreateTeam(c.Context(), arguments[0], plan)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(e.Out, team.ID)
				return err
			})
		},
	}
	dir.addTo(c)
	commandline.Enum(c.Flags(), &plan, "plan", "ai", "`PLAN`: ai, which has the public API, or basic", "ai", "basic")
	return c
}

func teamSetPlanCommand(e Environment) *cobra.Command {
	return databaseCommand(e, &cobra.Command{
		Use:   "set-plan ID|NAME ai|basic",
		Short: "Change the plan of a team. Gateways follow when they resolve its tokens again",
	}, func(ctx context.Context, b *service.Backend, arguments []string) error {
		team, err := b.FindTeam(ctx, arguments[0])
		if err != nil {
			return err
		}
		if err := b.SetTeamPlan(ctx, team.ID, arguments[1]); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.Out, "%s\t%s\n", team.ID, arguments[1])
		return err
	})
}

func teamListCommand(e Environment) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the teams"}
	return databaseCommand(e, c, func(ctx context.Context, b *service.Backend, _ []string) error {
		teams, err := b.Teams(ctx)
		if err != nil {
			return err
		}
		return table(e.Out, "ID\tNAME\tPLAN\tCREATED", len(teams), func(i int) string {
			t := teams[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s", t.ID, t.Name, t.Plan, when(t.CreatedAt))
		})
	})
}

func tokenCreateCommand(e Environment) *cobra.Command {
	var format tokenFormat
	var team, expires string
	var token service.NewToken
	c := databaseCommand(e, &cobra.Command{
		Use: "create", Short: "Create a token and print it. It is not shown again",
		PreRunE: func(*cobra.Command, []string) (err error) {
			if token.Lifetime, err = lifetime("--expires", expires); err != nil {
				return err
			}
			for _, scope := range token.Scopes {
				if !slices.Contains(authn.AllScopes(), authn.Scope(scope)) {
					return fmt.Errorf("no such scope: %q (there are %v)", scope, authn.AllScopes())
				}
			}
			return format.Validate()
		},
	}, func(ctx context.Context, b *service.Backend, _ []string) error {
		text, err := format.New(e.Random)
		if err != nil {
			return err
		}
		owner, err := b.FindTeam(ctx, team)
		if err != nil {
			return err
		}
		token.TeamID, token.SHA256 = owner.ID, authn.Hash(text)
		created, err := b.CreateToken(ctx, token)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.Out, text)
		_, noted := fmt.Fprintf(e.Err, "Token %s of team %s. It is not shown again.\n", created.ID, owner.Name)
		return errors.Join(err, noted)
	})
	format.addTo(c)
	c.Flags().StringVar(&team, "team", "", "team that the token acts for, as `ID|NAME`")
	c.Flags().StringSliceVar(&token.Scopes, "scopes", nil,
		"scopes of the token, as `SCOPE,...`, for example servers:read; none by default")
	c.Flags().StringVar(&token.Name, "name", "", "`NAME` of the token")
	c.Flags().StringVar(&token.LimitClass, "class", "",
		"`CLASS` of limits in the configuration of gateways; by default that of the team, if it has one")
	c.Flags().StringVar(&expires, "expires", "", "`TIME` until the token expires, such as 90d or 12h; by default it does not")
	commandline.Required(c, "team")
	return c
}

// lifetime returns the value of a flag: a positive duration in days or the units of Go; 0 for "".
func lifetime(flag, text string) (d time.Duration, err error) {
	if text == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	} else {
		d, err = time.ParseDuration(text)
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s must be a time such as 90d or 12h, not %q", flag, text)
	}
	return d, nil
}

// tokenMintCommand prints a new token and its hash to standard output.
func tokenMintCommand(e Environment) *cobra.Command {
	var format tokenFormat
	c := &cobra.Command{
		Use:     "mint",
		Short:   "Print a new token and its SHA-256, for the database of another identity service. Nothing is stored",
		PreRunE: func(*cobra.Command, []string) error { return format.Validate() },
		RunE: func(*cobra.Command, []string) error {
			text, err := format.New(e.Random)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.Out, "token   %s\nsha256  %x\n", text, authn.Hash(text))
			return err
		},
	}
	format.addTo(c)
	return c
}

func tokenListCommand(e Environment) *cobra.Command {
	var expire string
	var within time.Duration
	c := &cobra.Command{
		Use: "list", Short: "List the tokens, without their text",
		PreRunE: func(*cobra.Command, []string) (err error) {
			within, err = lifetime("--expire-within", expire)
			return err
		},
	}
	c.Flags().StringVar(&expire, "expire-within", "",
		"only tokens that have expired or expire within `TIME`, such as 30d, and are not revoked")
	return databaseCommand(e, c, func(ctx context.Context, b *service.Backend, _ []string) error {
		tokens, err := b.Tokens(ctx, within)
		if err != nil {
			return err
		}
		return table(e.Out, "ID\tTEAM\tNAME\tSCOPES\tCLASS\tCREATED\tEXPIRES\tREVOKED", len(tokens), func(i int) string {
			t := tokens[i]
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", t.ID, t.TeamID, t.Name, list(t.Scopes),
				cmp.Or(t.LimitClass, "-"), when(t.CreatedAt), when(t.ExpiresAt), when(t.RevokedAt))
		})
	})
}

func tokenRevokeCommand(e Environment) *cobra.Command {
	return databaseCommand(e, &cobra.Command{
		Use: "revoke ID", Short: "Revoke a token. Running servers report it to gateways within a second",
		Long: `Revoke a token. Running servers report it to gateways within a second.

ID is that of the list, not the token itself.`,
	}, func(ctx context.Context, b *service.Backend, arguments []string) error {
		token, err := b.RevokeToken(ctx, arguments[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.Out, "%s\trevoked\t%s\n", token.ID, when(token.RevokedAt))
		return err
	})
}

// table writes rows of tab-separated cells as a table.
func table(w io.Writer, heading string, rows int, row func(i int) string) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, heading)
	for i := range rows {
		fmt.Fprintln(columns, row(i))
	}
	return columns.Flush()
}

// when formats a time for a table.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
