package console_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"

	"opsgate/gateway/openapi/browsertest"
)

// faint returns the texts whose contrast with what is behind them is less than 4.5, and the bars of plots with less than 3 (WCAG 2.2,
// 1.4.3 and 1.4.11).
const faint = `(() => {
	const numbers = (color) => color.match(/[\d.]+/g).map(Number);
	const luminance = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
	const behind = (node) => {
		for (; node; node = node.parentElement) {
			const color = numbers(getComputedStyle(node).backgroundColor);
			if (color.length === 3 || color[3] === 1) return color;
		}
		return [255, 255, 255];
	};
	const contrast = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
	const bad = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let seen = 0;
	while (texts.nextNode()) {
		const parent = texts.currentNode.parentElement;
		if (!texts.currentNode.textContent.trim() || !parent.checkVisibility() || parent.closest('.unseen, svg, script, style, option')) continue;
		seen++;
		const ratio = contrast(luminance(numbers(getComputedStyle(parent).color)), luminance(behind(parent)));
		if (ratio < 4.5) bad.push(texts.currentNode.textContent.trim() + ': ' + ratio.toFixed(2));
	}
	for (const path of document.querySelectorAll('#plot path')) {
		const fill = getComputedStyle(path).fill;
		if (fill.startsWith('url')) continue;
		seen++;
		const ratio = contrast(luminance(numbers(fill)), luminance(behind(path.closest('div'))));
		if (ratio < 3) bad.push(path.getAttribute('class') + ': ' + ratio.toFixed(2));
	}
	return seen < 100 ? ['only ' + seen + ' texts were looked at'] : bad;
})()`

// inTrouble shows the page of a gateway that has traffic, refuses and fails, with an explanation open.
func inTrouble(t *testing.T) *screenOf {
	t.Helper()
	g := start(t, "")
	s := show(t, g)
	g.servers(t)
	g.get(t, g.api+"/v1/monitors", g.token)
	g.stopFleet()
	s.eventually("the breaker is open", `document.getElementById("headline").innerText.startsWith("fleet: breaker open for ")`, func() { g.servers(t) })
	s.eventually("there is a first point", `document.querySelector("[data-key=v1ListServers]") !== null`)
	s.do(chromedp.Click(chromedp.CSS("#busy button")), chromedp.Click(chromedp.CSS("#explain [type=submit]")), chromedp.Click(chromedp.CSS("summary")))
	s.eventually("there is an answer", `document.getElementById("answer").innerText.includes("GET /v1/servers: ")`)
	return s
}

func TestThePageCanBeReadByAnybody(t *testing.T) {
	s := inTrouble(t)
	if got := s.text("answer"); strings.Count(got, "breaker open") != 1 || !strings.Contains(got, "fleet cannot be reached – this decides") {
		t.Errorf("the explanation is %s", got)
	}
	if got := s.text("top"); !regexp.MustCompile(`^at most [1-9]\d*(\.\d+)? a second$`).MatchString(got) { // most of them failed
		t.Errorf("the plot says %s", got)
	}
	for _, width := range []int64{1280, 768, 360} {
		s.do(chromedp.EmulateViewport(width, 800))
		for _, scheme := range []string{"light", "dark"} {
			s.emulate(scheme)
			if got := read[[]string](s, faint); len(got) > 0 {
				t.Errorf("%d pixels, %s: too faint: %q", width, scheme, got)
			}
			s.keep(fmt.Sprintf("trouble-%d-%s.png", width, scheme))
		}
		if got := read[int64](s, "document.documentElement.scrollWidth"); got > width {
			t.Errorf("the page is %d wide on a screen of %d", got, width)
		}
		s.checkTree(t, width)
	}
	light := `getComputedStyle(document.body).backgroundColor`
	s.emulate("light")
	day := read[string](s, light)
	s.emulate("dark")
	if night := read[string](s, light); night == day {
		t.Errorf("by day and by night the page is %s", night)
	}
}

// An item is a node of the tree that screen readers read.
type item struct{ role, name string }

func (s *screenOf) tree() (list []item) {
	s.t.Helper()
	got, err := chromedp.Call(s, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, node := range got.Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		var i item
		_ = json.Unmarshal(node.Role.Value, &i.role)
		if node.Name != nil {
			_ = json.Unmarshal(node.Name.Value, &i.name)
		}
		list = append(list, i)
	}
	return list
}

// checkTree holds what a screen reader is told: landmarks, headings, and a name for whatever is used or stands for something.
func (s *screenOf) checkTree(t *testing.T, width int64) {
	t.Helper()
	named := map[string]bool{
		"button": true, "textbox": true, "combobox": true, "image": true, "table": true, "region": true, "form": true, "heading": true, "link": true,
	}
	byRole := map[string][]string{}
	for _, i := range s.tree() {
		byRole[i.role] = append(byRole[i.role], i.name)
		if named[i.role] && strings.TrimSpace(i.name) == "" {
			t.Errorf("%d pixels: a %s has no name", width, i.role)
		}
	}
	for role, want := range map[string]int{
		"banner": 1, "main": 1, "contentinfo": 1, "status": 1, "table": 6, "columnheader": 30, "textbox": 3, "combobox": 1,
	} {
		if got := byRole[role]; len(got) != want {
			t.Errorf("%d pixels: %d of role %s, want %d: %q", width, len(got), role, want, got)
		}
	}
	for _, want := range []string{"What it needs", "Noisiest tokens", "Why is a request refused?", "Configuration"} {
		if !slices.Contains(byRole["region"], want) || !slices.Contains(byRole["heading"], want) {
			t.Errorf("%d pixels: there is no region %q with its heading: %q, %q", width, want, byRole["region"], byRole["heading"])
		}
	}
	if !slices.Contains(byRole["rowheader"], "fleet") || len(byRole["cell"]) < 20 {
		t.Errorf("%d pixels: the tables are none: %q", width, byRole["rowheader"])
	}
}

// Who turned animations off gets none, and whoever did not gets next to none.
func TestThePageStandsStill(t *testing.T) {
	s := show(t, start(t, ""))
	s.headline("Everything is well")
	if got := browsertest.Read(s, t, chromedp.Evaluate[int]("document.getAnimations().length")); got != 0 {
		t.Errorf("%d animations", got)
	}
}
