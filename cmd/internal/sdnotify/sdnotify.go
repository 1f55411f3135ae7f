package sdnotify

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// exitTime is what a process needs beyond the drain to end: its last scrape, its log.
const exitTime = 5 * time.Second

// A Notifier implements the edge's Lifecycle for systemd.
type Notifier struct {
	logger *slog.Logger

	mu       sync.Mutex
	draining bool
}

// New returns a Notifier.
func New(logger *slog.Logger) *Notifier { return &Notifier{logger: logger} }

// Serving says that the start, or a reload, is over. A reload that is over when the end has begun is nobody's concern.
func (n *Notifier) Serving() { n.tellUnlessDraining(daemon.SdNotifyReady + "\nSTATUS=serving") }

// Reloading says that a reload has begun, and when: with Type=notify-reload systemd takes it for the answer to its SIGHUP only if it
// is later than that.
func (n *Notifier) Reloading() {
	n.tellUnlessDraining(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec() + "STATUS=reading the configuration")
}

// Draining says that the end has begun, and asks not to be killed before it can be over: the configuration may allow more time than
// TimeoutStopSec of the unit.
func (n *Notifier) Draining(atMost time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.draining = true
	n.tell(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d\nSTATUS=draining, for at most %s",
		daemon.SdNotifyStopping, (atMost + exitTime).Microseconds(), atMost))
}

func (n *Notifier) tellUnlessDraining(state string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.draining {
		n.tell(state)
	}
}

func (n *Notifier) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		n.logger.Warn("systemd was not told", slog.String("state", state), slog.Any("error", err))
	}
}
