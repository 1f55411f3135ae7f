package sdnotify

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// exitTime is what a process needs beyond the drain to end: its last scrape, its log.
const exitTime = 5 * time.Second

// A Notifier implements the edge's Lifecycle for systemd.
type Notifier struct {
	logger *slog.Logger
}

// New returns a Notifier.
func New(logger *slog.Logger) *Notifier { return &Notifier{logger} }

// Serving says that the start, or a reload, is over.
func (n *Notifier) Serving() { n.tell(daemon.SdNotifyReady + "\nSTATUS=serving") }

// Reloading says that a reload has begun, and when: with Type=notify-reload systemd takes it for the answer to its SIGHUP only if it
// is later than that.
func (n *Notifier) Reloading() {
	n.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec() + "STATUS=reading the configuration")
}

// Draining says that the end has begun, and asks not to be killed before it can be over: the configuration may allow more time than
// TimeoutStopSec of the unit.
func (n *Notifier) Draining(atMost time.Duration) {
	n.tell(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d\nSTATUS=draining, for at most %s",
		daemon.SdNotifyStopping, (atMost + exitTime).Microseconds(), atMost))
}

func (n *Notifier) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		n.logger.Warn("systemd was not told", slog.String("state", state), slog.Any("error", err))
	}
}
