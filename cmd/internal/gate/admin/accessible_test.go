package admin_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
)

// lowContrast returns the texts with a contrast below 4.5, and the bars of plots with a contrast
// below 3 (WCAG 2.2, 1.4.3 and 1.4.11).
const lowContrast = `(() => {
	const numbers = (color) => color.match(/[\d.]+/g).map(Number);
	const luminance = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
	const background = (node) => {
		for (; node; node = node.parentElement) {
			const color = numbers(getComputedStyle(node).backgroundColor);
			if (color.length === 3 || color[3] === 1) return color;
		}
		return [255, 255, 255];
	};
	const contrast = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
	const bad = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let checked = 0;
	while (texts.nextNode()) {
		const parent = texts.currentNode.parentElement;
		if (!texts.currentNode.textContent.trim() || !parent.checkVisibility() || parent.closest('.unseen, svg, script, style, option')) continue;
		checked++;
		const ratio = contrast(luminance(numbers(getComputedStyle(parent).color)), luminance(background(parent)));
		if (ratio < 4.5) bad.push(texts.currentNode.textContent.trim() + ': ' + ratio.toFixed(2));
	}
	for (const path of document.querySelectorAll('#plot path')) {
		const fill = getComputedStyle(path).fill;
		if (fill.startsWith('url')) continue;
		checked++;
		const ratio = contrast(luminance(numbers(fill)), luminance(background(path.closest('div'))));
		if (ratio < 3) bad.push(path.getAttribute('class') + ': ' + ratio.toFixed(2));
	}
	return checked < 100 ? ['only ' + checked + ' texts were checked'] : bad;
})()`

// tooWide lists the headings of sections whose contents are wider, so that they cover the next
// section.
const tooWide = `[...document.querySelectorAll("section")].filter((s) => s.scrollWidth > s.clientWidth)
	.map((s) => s.getAttribute("aria-labelledby"))`

// onEachScreen checks the contrast and the width of the page on screens of three widths, and calls
// check on each.
func (s browser) onEachScreen(name string, check func(width int64)) {
	s.T.Helper()
	for _, width := range []int64{1280, 768, 360} {
		s.Do(chromedp.EmulateViewport(width, 800))
		for _, scheme := range []string{"light", "dark"} {
			s.Media("", scheme)
			if got := read[[]string](s, lowContrast); len(got) > 0 {
				s.T.Errorf("%d pixels, %s: low contrast: %q", width, scheme, got)
			}
			s.KeepPicture(fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
		}
		if got := read[int64](s, "document.documentElement.scrollWidth"); got > width {
			s.T.Errorf("the page is %d wide on a screen of %d", got, width)
		}
		if got := read[[]string](s, tooWide); len(got) > 0 {
			s.T.Errorf("%d pixels: wider than their section: %q", width, got)
		}
		check(width)
	}
}

// axNode is a node of the accessibility tree.
type axNode struct{ role, name string }

func (s browser) tree() (list []axNode) {
	s.T.Helper()
	got, err := chromedp.Call(s, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		s.T.Fatal(err)
	}
	for _, node := range got.Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		var i axNode
		_ = json.Unmarshal(node.Role.Value, &i.role)
		if node.Name != nil {
			_ = json.Unmarshal(node.Name.Value, &i.name)
		}
		list = append(list, i)
	}
	return list
}

// checkTree checks the accessibility tree: landmarks, headings, tables, and a name for each
// control.
func (s browser) checkTree(t *testing.T, width int64) {
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
		"banner": 1, "main": 1, "contentinfo": 1, "status": 1, "table": 5, "columnheader": 27, "textbox": 3, "combobox": 1,
	} {
		if got := byRole[role]; len(got) != want {
			t.Errorf("%d pixels: %d of role %s, want %d: %q", width, len(got), role, want, got)
		}
	}
	for _, want := range []string{"Dependencies", "Busiest tokens at this gateway only", "Explain a request as this gateway only would answer it", "Configuration"} {
		if !slices.Contains(byRole["region"], want) || !slices.Contains(byRole["heading"], want) {
			t.Errorf("%d pixels: there is no region %q with its heading: %q, %q", width, want, byRole["region"], byRole["heading"])
		}
	}
	if !slices.Contains(byRole["rowheader"], "fleet") || len(byRole["cell"]) < 20 {
		t.Errorf("%d pixels: the tables lack row headers or cells: %q", width, byRole["rowheader"])
	}
}
