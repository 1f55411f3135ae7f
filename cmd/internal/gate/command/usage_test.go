package command_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

func TestUsageCountsRecordedRequests(t *testing.T) {
	eventAt := func(second int, fields string) string {
		return fmt.Sprintf(`{"at":"2026-01-02T12:00:%02dZ","token":%s}`, second, fields)
	}
	file := recordOf(t,
		eventAt(1, `"tok_1","team":"a, \"b\"","op":"v1ListServers","allowed":true`),
		eventAt(2, `"tok_1","team":"a, \"b\"","op":"v1GetServer","allowed":true`),
		eventAt(3, `"tok_1","refund_of":"2026-01-02T12:00:02Z"`),
		eventAt(4, `"tok_1","team":"a, \"b\"","op":"v1ListServers","denied":"second"`),
		eventAt(5, `"tok_1","team":"a, \"b\"","op":"v1ListServers","denied":"minute"`),
		eventAt(6, `"tok_2","team":"harbour","allowed":true`),
		eventAt(7, `"tok_2","reset":true`),
		eventAt(8, `"tok_1","refund_of":"2026-01-02T11:00:00Z"`),
	)
	for _, test := range []struct {
		arguments string
		want      []string
	}{
		{"--by=team --csv", []string{`"a, ""b""",,,4,2,1,2,minute=1 second=1,100%`, "harbour,,,1,1,0,0,,100%"}},
		{"--by=token --csv", []string{`"a, ""b""",tok_1,,4,2,1,2,minute=1 second=1,100%`, "harbour,tok_2,,1,1,0,0,,100%"}},
		{"--by=operation --csv", []string{",,v1ListServers,3,1,0,2,minute=1 second=1,100%", ",,,1,1,0,0,,100%", ",,v1GetServer,1,1,1,0,,100%"}},
		{"--by=team --csv --since=2026-01-02T12:00:02Z --until=2026-01-02T12:00:05Z", []string{`"a, ""b""",,,2,1,1,1,second=1,100%`}},
		{"--by=team --csv --since=2026-01-01 --until=2026-01-02T12:00:02Z", []string{`"a, ""b""",,,1,1,0,0,,100%`}},
		{"--by=team", []string{`a, "b" - - 4 2 1 2 minute=1 second=1`, "harbour - - 1 1 0 0 -"}},
	} {
		got := opsgate(t, nil, append(strings.Fields("usage "+test.arguments), "--demand="+file)...)
		rows := strings.Split(strings.TrimSpace(lineWords(got.out)), "\n")
		if got.code != 0 || !slices.Equal(rows[len(rows)-len(test.want):], test.want) ||
			strings.Contains(test.arguments, "csv") && len(rows) != len(test.want)+1 {
			t.Errorf("%s: got %+v", test.arguments, got)
		}
	}
	var view struct {
		Requests uint64
		Rows     []struct {
			Team     string         `json:"team_id"`
			DeniedBy map[string]int `json:"denied_by"`
		}
	}
	testkit.Must(t, json.Unmarshal([]byte(opsgate(t, nil, "usage", "--json", "--demand="+file).out), &view))
	if view.Requests != 5 || view.Rows[0].Team != `a, "b"` || view.Rows[0].DeniedBy["minute"] != 1 {
		t.Errorf("got %+v", view)
	}
}

func TestUsageReportsWhatItDoesNotCount(t *testing.T) {
	file := recordOf(t, `{"opsgate_demand":1,"sample":0.25}`, `{"gateways":{"at":"2026-01-02T11:00:00Z","id":"a","count":2,"ids":["a","b"]}}`,
		admittedAt(0, "tok_1", ""), `{"dropped":3}`)
	got := opsgate(t, nil, "usage", "--csv", "--since=2026-01-01", "--demand="+file)
	testkit.Contains(t, got.err,
		"warning: 3 events are missing in the record\n", "a sample of 25% to 100% of the tokens is recorded",
		"the record begins only at 2026-01-02T12:00:00.000Z: "+file, "gateway b has no record, 2026-01-02T12:00:00.000Z\n",
	)
	if !strings.HasSuffix(got.out, ",,,1,1,0,0,,25%\n") {
		t.Errorf("got %+v", got)
	}
}

func TestUsageAndAuditShowNamesOfAGateway(t *testing.T) {
	g := serveGateway(t, explained)
	g.services.Names = [2]string{"Deploy bot", "Harbour"}
	g.get(t, "/v1/me")
	event := fmt.Sprintf(`{"at":"2026-01-02T12:00:01Z","token":%q,"team":%q,"allowed":true,"policy":1}`, tokenID, teamID)
	file := recordOf(t, threeASecond, event, strings.ReplaceAll(event, tokenID, otherID))
	at := []string{"--demand=" + file, "--admin=" + g.admin(t), "--token-file=" + write(t, adminToken)}
	const token, team = tokenID + " (Deploy bot)", teamID + " (Harbour)"
	for arguments, want := range map[string]string{
		"usage --by=token":       "\n" + team + " " + otherID + " - 1 1 0 0 -\n" + team + " " + token + " - 1 1 0 0 -\n",
		"usage --by=team":        "\n" + team + " - - 2 2 0 0 -\n",
		"usage --by=token --csv": "\n" + teamID + "," + tokenID + ",,1,1,0,0,,100%,Harbour,Deploy bot\n",
		"usage --json":           `"team_name": "Harbour"`,
		"audit":                  "\n" + token + " " + team + " 1 3 per 1s ",
		"audit --json":           `"token_name": "Deploy bot"`,
	} {
		got := opsgate(t, nil, append(strings.Fields(arguments), at...)...)
		if got.code != 0 || got.err != "" || !strings.Contains(lineWords(got.out), want) {
			t.Errorf("%s: got %+v", arguments, got)
		}
	}
	burst := recordOf(t, threeASecond, event, strings.Replace(event, ":01Z", ":01.1Z", 1), strings.Replace(event, ":01Z", ":01.2Z", 1))
	low := write(t, good+"rate_limit: {limits: [{requests: 1, per: 1s}]}\n")
	for arguments, want := range map[string]string{
		"replay":                     "\n" + token + " " + team + " 3 0 2 2 ",
		"replay --json":              `"token_name": "Deploy bot"`,
		"suggest --deny-at-most=70%": `token "` + token + `" of team "` + team + `": 2 of 3 requests denied`,
	} {
		got := opsgate(t, nil, append(strings.Fields(arguments), "--config="+low, "--demand="+burst, at[1], at[2])...)
		if got.code != 0 || got.err != "" || !strings.Contains(lineWords(got.out), want) {
			t.Errorf("%s: got %+v", arguments, got)
		}
	}
	without := opsgate(t, nil, "usage", "--by=token", at[0], "--admin=127.0.0.1:1")
	if want := "note: ids are shown without names: "; without.code != 0 || !strings.HasPrefix(without.err, want) || !strings.Contains(without.out, tokenID) {
		t.Errorf("without the gateway: %+v", without)
	}
	hebrew := serveGateway(t, explained)
	hebrew.services.Names = [2]string{"\u05d0\u05d1", "=Harbour()"}
	hebrew.get(t, "/v1/me")
	got := opsgate(t, nil, "usage", "--by=token", at[0], "--admin="+hebrew.admin(t), at[2])
	if want := tokenID + " (\u2068\u05d0\u05d1\u2069)"; !strings.Contains(got.out, want) {
		t.Errorf("there is no isolated name %q: %+v", want, got)
	}
	got = opsgate(t, nil, "usage", "--by=team", "--csv", at[0], "--admin="+hebrew.admin(t), at[2])
	if !strings.Contains(got.out, ",'=Harbour(),") {
		t.Errorf("a name is a formula: %+v", got)
	}
	if got := opsgate(t, nil, "usage", "--json", at[0]); strings.Contains(got.out, `"Rows"`) || !strings.Contains(got.out, `"rows"`) ||
		!strings.Contains(got.out, `"warnings": []`) {
		t.Errorf("JSON has the rows twice, or not, or no list of warnings: %s", got.out)
	}
	if got := opsgate(t, nil, "usage", at[0], "--admin=harbour"); got.code != 2 {
		t.Errorf("not an address: %+v", got)
	}
}

func TestUsageNamesTheTimesWithoutARecord(t *testing.T) {
	first := recordOf(t, admittedAt(0, "tok_1", ""), admittedAt(1000, "tok_1", ""))
	second := recordOf(t, admittedAt(3000, "tok_1", ""), admittedAt(9000, "tok_1", ""))
	for _, test := range []struct {
		arguments string
		want      []string
	}{
		{"--demand=" + second, nil},
		{"--until=2026-01-02T12:00:08Z --demand=" + second, nil},
		{"--until=2026-01-02T12:01:00Z --demand=" + second, []string{"the record ends at 2026-01-02T12:00:09.000Z: " + second}},
		{"--since=2026-01-02T11:00:00Z --demand=" + first, []string{"the record begins only at 2026-01-02T12:00:00.000Z: " + first}},
		{"--demand=" + first + " --demand=" + second, []string{
			"there is no time in which all records have requests: it is not known whether further ones are missing",
			"the record ends at 2026-01-02T12:00:01.000Z: " + first, "the record begins only at 2026-01-02T12:00:03.000Z: " + second,
		}},
	} {
		got := opsgate(t, nil, append([]string{"usage", "--csv"}, strings.Fields(test.arguments)...)...)
		want := strings.Join(test.want, "\nwarning: ")
		if want != "" {
			want = "warning: " + want + "\n"
		}
		if got.code != 0 || got.err != want {
			t.Errorf("%s: got %+v, want %q", test.arguments, got, want)
		}
	}
}
