package gateway

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxDownloads is the maximal number of concurrent downloads of documentation pages.
	maxDownloads = 64
	// maxReadTime is the time after which a new download may replace a running one. A client that reads the response needs less.
	maxReadTime = time.Second
)

// downloads limits concurrent downloads of documentation pages. Pages are public and larger than the buffer of a connection, so anonymous
// clients that do not read could hold any number of responses. At the limit, a new download replaces the oldest if that has lasted longer
// than maxReadTime, else it is rejected. This also limits the rate of downloads.
type downloads struct {
	cutOff prometheus.Counter

	mu      sync.Mutex
	running []*download // the oldest first
}

type download struct {
	*http.ResponseController

	began time.Time
}

func newDownloads() downloads {
	return downloads{cutOff: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "opsgate_http_downloads_cut_off_total",
		Help: "Downloads of documentation that were cut off at the limit of downloads, to start a new one.",
	})}
}

// begin registers a download, and returns the function that ends it, or nil if the download is refused.
func (d *downloads) begin(w http.ResponseWriter, now time.Time) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.running) == maxDownloads {
		oldest := d.running[0]
		if now.Sub(oldest.began) < maxReadTime {
			return nil
		}
		// Under the lock, because a response writer must not be used after its handler has returned.
		_ = oldest.SetWriteDeadline(time.Unix(1, 0))
		d.running = slices.Delete(d.running, 0, 1)
		d.cutOff.Inc()
	}
	added := &download{http.NewResponseController(w), now}
	d.running = append(d.running, added)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if i := slices.Index(d.running, added); i >= 0 {
			d.running = slices.Delete(d.running, i, i+1)
		}
	}
}
