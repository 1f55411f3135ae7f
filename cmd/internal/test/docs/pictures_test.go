package docs

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"opsgate/cmd/internal/test/devtest"
	"opsgate/gateway/apidocs/samples"
	"opsgate/internal/testkit"
	"opsgate/internal/testkit/browsertest"
	"opsgate/ratelimit/redisstore/redistest"
)

const pictures = "../../../../docs/pictures/"

// The README shows an operation in the documentation, and the admin page while Redis hangs. With
// -update, which `make pictures` sets, the pictures are taken from a running system.
func TestPictures(t *testing.T) {
	if *update {
		takePictures(t)
	}
	for _, name := range []string{"operation.png", "admin-page.png"} {
		picture, err := os.Stat(pictures + name)
		testkit.Must(t, err)
		if picture.Size() > 150_000 {
			t.Errorf("%s has %d bytes", name, picture.Size())
		}
	}
}

func takePictures(t *testing.T) {
	t.Helper()
	redis := redistest.Start(t)
	config := filepath.Join(t.TempDir(), "opsgate.yaml")
	write(t, config, fmt.Sprintf("rate_limit: {store: redis, expected_replicas: 2, redis: {addresses: [%q]},\n"+
		"  limits: [{requests: 10000, per: 1s}, {requests: 10000000, per: 1h}]}\n", redis.Addr()))
	s := system{devtest.Run(t, "--config="+config)}
	page := browsertest.Start(t)
	page.Do(chromedp.EmulateViewport(1200, 900),
		chromedp.Navigate(s.BaseURL+"/docs/reference/incidents/#v1CreateIncident"),
		chromedp.WaitVisible(chromedp.CSS("#v1CreateIncident")))
	save(t, page, "operation.png")

	page.Do(chromedp.EmulateViewport(1200, 1085), chromedp.Navigate(s.AdminURL))
	reads := func() {
		for _, request := range samples.Requests() {
			if request.Method == http.MethodGet {
				s.call(t, request, "full")
				s.call(t, request, "other_team")
			}
		}
	}
	page.Eventually("several bars of requests", `performance.now() > 60_000`, reads)
	redis.Pause()
	page.Eventually("the finding",
		`/redis: unavailable for 1\ds/.test(document.getElementById("headline").innerText)`, reads)
	save(t, page, "admin-page.png")
}

// save saves what the browser shows, in its 256 most frequent colors.
func save(t *testing.T, page *browsertest.Page, name string) {
	t.Helper()
	shot, err := chromedp.Run(page, chromedp.CaptureScreenshot())
	testkit.Must(t, err)
	source, err := png.Decode(bytes.NewReader(shot))
	testkit.Must(t, err)
	count := map[color.Color]int{}
	for y := range source.Bounds().Dy() {
		for x := range source.Bounds().Dx() {
			count[source.At(x, y)]++
		}
	}
	palette := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int {
		return cmp.Compare(count[b], count[a])
	})
	picture := image.NewPaletted(source.Bounds(), palette[:min(256, len(palette))])
	draw.Draw(picture, picture.Bounds(), source, image.Point{}, draw.Src)
	var encoded bytes.Buffer
	testkit.Must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&encoded, picture))
	testkit.Must(t, os.WriteFile(pictures+name, encoded.Bytes(), 0o644))
}
