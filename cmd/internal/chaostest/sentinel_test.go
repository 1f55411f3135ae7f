package chaostest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"opsgate/ratelimit/redisstore/redistest"
)

// behindSentinels is the configuration of gateways that ask sentinels for their Redis. As in inRedis, those of the short form are
// patient.
func behindSentinels(w *redistest.Watched, more string) string {
	addresses := make([]string, 0, len(w.Sentinels))
	for _, address := range w.Addrs() {
		addresses = append(addresses, fmt.Sprintf("%q", address))
	}
	timeout := either(50*time.Millisecond, 2*time.Second)
	return fmt.Sprintf("rate_limit:\n  store: redis\n  expected_replicas: 2\n"+
		"  redis: {mode: sentinel, master_name: main, addresses: [%s], timeout: %v, dial_timeout: %v}\n%s",
		strings.Join(addresses, ", "), timeout, 2*timeout, more)
}

// The machine of the master dies, and the sentinel on it. What replication had not brought to the replica is gone with it, which in
// the second case is all: gateways tell the new master what they know, so it makes no difference to anybody.
func TestSentinelsReplaceTheMaster(t *testing.T) {
	for name, dies := range map[string]func(w *redistest.Watched){
		"with nearly all that it knew": func(w *redistest.Watched) {
			master, _ := w.Roles()
			master.Kill()
		},
		"with nothing": (*redistest.Watched).Forget,
	} {
		t.Run(name, func(t *testing.T) {
			beside(t)
			replaceTheMaster(t, redistest.StartWatched(t, "main"), dies)
		})
	}
}

func replaceTheMaster(t *testing.T, w *redistest.Watched, dies func(*redistest.Watched)) {
	t.Helper()
	limited := tokens(t)
	gateways := startTwo(t, behindSentinels(w, fmt.Sprintf("  limits: [{requests: 1000000, per: 1s}]\n  tokens:\n"+
		"    %s: {limits: [{requests: 10, per: 1s}]}\n    %s: {limits: [{requests: 100, per: 1h}]}\n",
		limited["full"].ID, limited["read"].ID)+recorded))
	end := load{
		gateways: gateways, tokens: texts(t, "full", "read", "servers:read", "monitors:read"), rate: either(200.0, 120), clients: 32,
	}.begin(t)
	pass(t, either(time.Second, time.Second))
	gone := time.Now()
	w.Sentinels[0].Kill()
	dies(w)
	eventually(t, "both gateways notice", func() bool { _, none := inShared(t, gateways); return none })
	eventually(t, "both count in Redis again", func() bool { all, _ := inShared(t, gateways); return all })
	back := time.Since(gone)
	master, _ := w.Roles()
	eventually(t, "both hear of refunds by the new master", func() bool {
		return master.Client().PubSubNumSub(t.Context(), "opsgate:freed").Val()["opsgate:freed"] == int64(len(gateways))
	})
	pass(t, either(5*time.Second, 3*time.Second))
	all := end()
	noneFailed(t, beyond, all)
	within(t, beyond, "until both counted in the new master", back, 15*time.Second)
	note(t, beyond, "slowest", tenths(all.percentile(1)), "")
	d := decisions(t, gateways)
	var last time.Time
	for _, d := range d {
		if d.lastLocal.After(last) {
			last = d.lastLocal
		}
	}
	note(t, beyond, "until none decided alone", last.Sub(gone), "")
	full, read := d[limited["full"].ID], d[limited["read"].ID]
	note(t, beyond, "alone", full.local, "")
	note(t, beyond, "hour alone", read.local, "")
	note(t, beyond, "hour before", len(during(read.admitted, time.Time{}, gone)), "")
	atMost(t, beyond, "10 per 1s", most(full.admitted, time.Second), 12)
	atMost(t, beyond, "100 per 1h", len(read.admitted), 105)
}
