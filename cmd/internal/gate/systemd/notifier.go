package systemd

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// exitTime is how long a process needs to exit after the drain.
const exitTime = 5 * time.Second

// A Notifier reports the lifecycle of a gateway to systemd. Its methods may be called concurrently.
// A nil Notifier reports nothing.
type Notifier struct {
	logger *slog.Logger

	mu       sync.Mutex
	draining bool
}

// NewNotifier returns a Notifier.
func NewNotifier(logger *slog.Logger) *Notifier { return &Notifier{logger: logger} }

// Serving reports the end of the start or of a reload. It does nothing after Draining.
func (n *Notifier) Serving() { n.notifyUnlessDraining(daemon.SdNotifyReady + "\nSTATUS=serving") }

// Reloading reports the start of a reload, with its time: with Type=notify-reload systemd requires
// one later than its SIGHUP. It does nothing after Draining.
func (n *Notifier) Reloading() {
	n.notifyUnlessDraining(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec() +
		"STATUS=reading the configuration")
}

// Draining reports the start of the shutdown, and extends the timeout of systemd to its maximum
// duration, which may be longer than TimeoutStopSec of the unit.
func (n *Notifier) Draining(timeout time.Duration) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.draining = true
	n.notify(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d\nSTATUS=draining, for at most %s",
		daemon.SdNotifyStopping, (timeout + exitTime).Microseconds(), timeout))
}

func (n *Notifier) notifyUnlessDraining(state string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.draining {
		n.notify(state)
	}
}

func (n *Notifier) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		n.logger.Warn("systemd notification failed", slog.String("state", state), slog.Any("error", err))
	}
}
