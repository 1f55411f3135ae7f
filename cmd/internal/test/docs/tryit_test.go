package docs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"opsgate/cmd/internal/test/devtest"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/browsertest"
)

// A tryPage is a page of the reference in a browser, with the form of one operation open.
type tryPage struct {
	system
	*browsertest.Page

	id string // of the operation
}

// try opens the form of an operation.
func try(t *testing.T, configuration, id string) *tryPage {
	t.Helper()
	p := &tryPage{start(t, configuration), browsertest.Start(t), "v1Me"}
	p.Do(chromedp.Navigate(p.BaseURL+"/docs/reference/token/#v1Me-try"), chromedp.WaitVisible(chromedp.CSS(p.field("token"))))
	if id != p.id {
		p.follow(t, id)
	}
	return p
}

// follow opens the form of another operation by the navigation of the page.
func (p *tryPage) follow(t *testing.T, id string) {
	t.Helper()
	p.id = id
	p.evaluate(t, fmt.Sprintf(`document.querySelector('.side a[href$="#%s"]').click(); ""`, id))
	p.await(t, fmt.Sprintf(`document.querySelector("#%s-try:not([hidden])") !== null`, id))
	p.evaluate(t, fmt.Sprintf(`document.querySelector("#%s-try:not([open]) > summary")?.click(); ""`, id))
	p.Do(chromedp.WaitVisible(chromedp.CSS(p.field("token"))))
}

func (p *tryPage) field(name string) string { return "#" + p.id + "-try-" + name }

// enter replaces the value of a field, as with a keyboard.
func (p *tryPage) enter(t *testing.T, name, value string) {
	t.Helper()
	p.evaluate(t, fmt.Sprintf(`document.querySelector(%q).focus(); document.activeElement.select(); ""`, p.field(name)))
	p.Do(chromedp.KeyEvent(value), chromedp.KeyEvent(kb.Tab))
}

// send presses Send and returns what the form shows.
func (p *tryPage) send(t *testing.T) (status, body string) {
	t.Helper()
	form := fmt.Sprintf(`document.querySelector("#%s-try form")`, p.id)
	p.evaluate(t, form+`.querySelector(".result").replaceChildren(); `+form+`.querySelector("[type=submit]").click(); ""`)
	p.await(t, form+`.querySelector(".result pre") !== null && `+form+`.ariaBusy === "false"`)
	return p.evaluate(t, form+`.querySelector("[role=status]").textContent`), p.evaluate(t, form+`.querySelector(".result pre").textContent`)
}

// text returns the text of the elements that a selector finds in the form.
func (p *tryPage) text(t *testing.T, selector string) string {
	t.Helper()
	return p.evaluate(t, fmt.Sprintf(`[...document.querySelectorAll("#%s-try " + %q)].map((e) => e.textContent.trim()).join("\n")`, p.id, selector))
}

func (p *tryPage) value(t *testing.T, name string) string {
	t.Helper()
	return p.evaluate(t, fmt.Sprintf(`document.querySelector(%q).value`, p.field(name)))
}

func (p *tryPage) await(t *testing.T, condition string) {
	t.Helper()
	p.Eventually(condition, condition)
}

func (p *tryPage) evaluate(t *testing.T, expression string) string {
	t.Helper()
	return browsertest.Read[string](p.Page, expression)
}

// checkQuiet checks that the pages stored nothing, used no other host, and caused no error in the
// browser but for refused requests.
func (p *tryPage) checkQuiet(t *testing.T) {
	t.Helper()
	if stored := p.evaluate(t, `Promise.all([indexedDB.databases(), caches.keys(), navigator.serviceWorker.getRegistrations()]).then((found) =>
		JSON.stringify([localStorage, sessionStorage, document.cookie, history.state, ...found]))`); stored != `[{},{},"",null,[],[],[]]` {
		t.Errorf("the page stored %s in the browser", stored)
	}
	p.CheckOrigin(p.BaseURL, 6)
	for _, u := range p.URLs() {
		for _, token := range p.Tokens {
			if strings.Contains(u.String(), token) {
				t.Errorf("the token is in the address %s", u)
			}
		}
	}
	for _, complaint := range p.Complaints() {
		if !strings.HasPrefix(complaint, "log: Failed to load resource: the server responded with a status of 4") {
			t.Errorf("error in the browser: %q", complaint)
		}
	}
}

// One loaded page and one pasted token are enough for every operation: the token stays in memory
// from page to page. The command of each form does what the form did.
func TestTryItSendsEveryOperation(t *testing.T) {
	p := try(t, devtest.HighLimits, "v1Me")
	p.enter(t, "token", p.Tokens["full"])
	documents := func() (count int) {
		for _, u := range p.URLs() {
			if u.Path == "/docs/try.js" {
				count++
			}
		}
		return count
	}
	operations := readsFirst()
	if testing.Short() {
		operations = operations[len(operations)-2:]
	}
	for _, o := range operations {
		p.follow(t, o.ID)
		if strings.Contains(o.Path, "{") {
			p.await(t, fmt.Sprintf(`document.querySelector(%q).value !== ""`, p.field("id")))
		}
		status, body := p.send(t)
		if !strings.HasPrefix(status, "200 OK in ") || !json.Valid([]byte(body)) {
			t.Errorf("%s: %s\n%s", o.ID, status, body)
		}
		if headers := p.text(t, ".result dt"); !strings.HasPrefix(headers, "RateLimit\n") || !strings.Contains(headers, "X-Request-Id") {
			t.Errorf("%s: it shows the headers %s", o.ID, headers)
		}
		command := p.text(t, ".curl")
		if strings.Contains(command, p.Tokens["full"]) {
			t.Fatalf("%s: the command has the token", o.ID)
		}
		testkit.Find(t, "curl")
		out, stderr, err := runIn(t, "", []string{"OPSCTL_TOKEN=" + p.Tokens["full"]}, "sh", "-c", command)
		if got, want := masked(o.Method, shorten(t, []byte(out))), masked(o.Method, shorten(t, []byte(body))); err != nil || got != want {
			t.Errorf("%s: %s\nprints\n%s\nthe form shows\n%s\n%v %s", o.ID, command, got, want, err, stderr)
		}
	}
	if got := documents(); got != 1 {
		t.Errorf("%d pages were loaded, want 1", got)
	}
	p.checkQuiet(t)
}

// The same request again is a replay. Another body gets another key.
func TestTryItChoosesAKeyForEachBody(t *testing.T) {
	p := try(t, devtest.HighLimits, "v1CreateIncident")
	p.enter(t, "token", p.Tokens["incidents:write"])
	_, body := p.send(t)
	if _, again := p.send(t); again != body || !strings.Contains(p.text(t, ".result dt"), "Idempotent-Replayed") {
		t.Errorf("after %s the second answer is %s, with the headers %s", body, again, p.text(t, ".result dt"))
	}
	key, other := p.value(t, "Idempotency-Key"), `{"title": "It's late", "status": "identified", "impact": "minor", "message": "Backups run at noon."}`
	p.enter(t, "body", other)
	next, command := p.value(t, "Idempotency-Key"), p.text(t, ".curl")
	quoted := `--data-raw '` + strings.Replace(other, "'", `'\''`, 1) + "'"
	if next == key || !strings.Contains(command, "Idempotency-Key: "+next) || !strings.HasSuffix(command, quoted) {
		t.Errorf("the key of another body is %s, the command is\n%s", next, command)
	}
	p.checkQuiet(t)
}

// A reload loses the token, as the hint at its field says.
func TestTryItSuggestsTheIDsOfTheReadersTeam(t *testing.T) {
	p := try(t, devtest.HighLimits, "v1GetServer")
	p.enter(t, "token", p.Tokens["other_team"])
	var own []struct{ ID, Name string }
	decode(t, p.system.send(t, http.MethodGet, "other_team", "/v1/servers", ""), &own)
	p.await(t, fmt.Sprintf(`document.querySelector(%q).value === %q`, p.field("id"), own[0].ID))
	if names := p.text(t, "datalist option"); !strings.HasPrefix(names, own[0].Name+"\n"+own[1].Name) {
		t.Errorf("suggested are %s", names)
	}
	p.Do(chromedp.Reload())
	p.follow(t, "v1ListServers")
	if got := p.value(t, "token"); got != "" {
		t.Error("after a reload the field still has the token")
	}
	p.checkQuiet(t)
}

func TestTryItExplainsErrors(t *testing.T) {
	p := try(t, devtest.HighLimits, "v1CreateIncident")
	for _, c := range []struct{ token, body, code string }{
		{"", "{}", "unauthorized"},
		{p.Tokens["servers:read"], "{}", "forbidden"},
		{p.Tokens["full"], "{}", "validation_error"},
	} {
		p.enter(t, "token", c.token+kb.Delete) // the key removes an old token if there is no new one
		p.enter(t, "body", c.body)
		_, body := p.send(t)
		var problem struct{ Error, Code string }
		testkit.Must(t, json.Unmarshal([]byte(body), &problem))
		said := p.text(t, ".problem")
		link := p.evaluate(t, `document.querySelector(".problem a").getAttribute("href")`)
		if problem.Code != c.code || !strings.HasPrefix(said, problem.Error) || len(said) < len(problem.Error)+60 || link != "/docs/errors/#"+c.code {
			t.Errorf("%s: explained by %q with a link to %s", body, said, link)
		}
	}
	p.KeepPicture("refused.jpg")
	p.evaluate(t, `document.querySelector(".problem a").click(); ""`)
	p.await(t, `document.title.startsWith("Errors") && document.querySelector("#validation_error")?.matches(":target")`)
	p.checkQuiet(t)
}

func TestTryItTurnsPagesOfAList(t *testing.T) {
	p := try(t, devtest.HighLimits, "v1ListIncidents")
	p.enter(t, "token", p.Tokens["full"])
	p.enter(t, "limit", "2")
	_, first := p.send(t)
	p.evaluate(t, `document.querySelector(".result .button").click(); ""`)
	p.await(t, fmt.Sprintf(`(document.querySelector("#v1ListIncidents-try .result pre")?.textContent ?? %q) !== %q`, first, first))
	var page struct{ Items []struct{ ID string } }
	testkit.Must(t, json.Unmarshal([]byte(p.text(t, ".result pre")), &page))
	if len(page.Items) != 2 || strings.Contains(first, page.Items[0].ID) || !strings.Contains(p.text(t, ".curl"), "/v1/incidents?limit=2&cursor=") {
		t.Errorf("after %s the next page is %v, by\n%s", first, page, p.text(t, ".curl"))
	}
	p.checkQuiet(t)
}
