package gateway

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// A stalled response is one that its client does not read.
type stalled struct {
	http.ResponseWriter

	cutOff bool
}

// SetWriteDeadline is called by [http.ResponseController].
func (s *stalled) SetWriteDeadline(at time.Time) error {
	s.cutOff = !at.After(time.Now())
	return nil
}

func TestDownloads_ReplaceTheOldestPastTheirLimit(t *testing.T) {
	d, now := newDownloads(), time.Unix(1000, 0)
	all, ends := make([]*stalled, maxDownloads), make([]func(), maxDownloads)
	for i := range all {
		all[i] = new(stalled)
		ends[i] = d.begin(all[i], now.Add(time.Duration(i)*time.Millisecond))
	}
	if d.begin(new(stalled), now.Add(maxReadTime-1)) != nil {
		t.Error("a download replaces one that a client may be reading")
	}
	replacing := d.begin(new(stalled), now.Add(maxReadTime))
	if replacing == nil {
		t.Fatal("a download does not replace one that has lasted too long")
	}
	for i, s := range all {
		if want := i == 0; s.cutOff != want {
			t.Errorf("download %d: cut off %t, want %t", i, s.cutOff, want)
		}
	}
	ends[1]() // below the limit again
	last := d.begin(new(stalled), now.Add(maxReadTime))
	if last == nil {
		t.Fatal("a download is refused though there is room")
	}
	for _, end := range slices.Concat(ends, []func(){replacing, last}) { // including those that have ended, and the one that was cut off
		end()
	}
	if len(d.running) != 0 {
		t.Errorf("%d downloads are left", len(d.running))
	}
}
