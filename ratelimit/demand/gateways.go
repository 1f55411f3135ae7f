package demand

import (
	"errors"
	"slices"
	"time"
)

const (
	maxGateways  = 64               // ids in a line
	maxGatewayID = 64               // bytes
	maxCounted   = 1 << 20          // gateways
	startGrace   = 10 * time.Second // in which the first count of a gateway is that of its start
)

// Gateways are the gateways that share the limits, as one of them counts them.
type Gateways struct {
	ID    string   // of the gateway that counts
	Count int      // this one included; 0 if it is not known
	IDs   []string // of all, in ascending order; some or all may be absent
}

func (g Gateways) equal(other Gateways) bool {
	return g.ID == other.ID && g.Count == other.Count && slices.Equal(g.IDs, other.IDs)
}

// bounded returns the gateways without the ids that a line does not hold.
func (g Gateways) bounded() Gateways {
	g.ID = g.ID[:min(len(g.ID), maxGatewayID)]
	g.IDs = g.IDs[:min(len(g.IDs), maxGateways)]
	g.IDs = slices.DeleteFunc(slices.Clone(g.IDs), func(id string) bool { return id == "" || len(id) > maxGatewayID })
	g.Count = min(max(g.Count, len(g.IDs)), maxCounted)
	return g
}

// A gatewaysEntry is the gateways from a time on, until the next entry or the start of the gateway.
type gatewaysEntry struct {
	At    *time.Time `json:"at"`
	ID    string     `json:"id"`
	Count int        `json:"count"`
	IDs   []string   `json:"ids,omitempty"`
}

func appendGateways(b []byte, at time.Time, g Gateways) []byte {
	return appendLine(b, &line{Gateways: &gatewaysEntry{utc(at), g.ID, g.Count, g.IDs}})
}

func (l *line) checkGateways() error {
	g := l.Gateways
	tooLong := func(id string) bool { return id == "" || len(id) > maxGatewayID }
	switch {
	case *l != line{Gateways: g}:
		return errors.New("has gateways and other fields")
	case !isPlausible(g.At):
		return errors.New("must have a time between the years 2000 and 2200 in at of gateways")
	case tooLong(g.ID) || slices.ContainsFunc(g.IDs, tooLong):
		return errors.New("must have ids of 1 to 64 bytes in gateways")
	case g.Count < len(g.IDs) || g.Count > maxCounted || len(g.IDs) > maxGateways:
		return errors.New("must have a count of gateways that is at least the number of ids, of which there are at most 64")
	}
	return nil
}

// A Membership is the gateways that shared the limits in a time, as the gateway of a record counted them. To is zero for the end of the
// record.
type Membership struct {
	Gateways

	From, To time.Time
}

// A counting reads the gateways for a recorder.
type counting struct {
	read    func() Gateways // nil if they are not recorded
	last    Gateways
	started time.Time
	known   bool // they were known since the start
}

// next returns the gateways if they have changed, and since when. What is known soon after the start holds since the start.
func (c *counting) next(now time.Time) (at time.Time, g Gateways, changed bool) {
	if c.read == nil {
		return now, g, false
	}
	g = c.read().bounded()
	if g.equal(c.last) {
		return now, g, false
	}
	if !c.known && now.Sub(c.started) < startGrace {
		now = c.started
	}
	c.last, c.known = g, c.known || g.Count > 0
	return now, g, true
}

// A Gap is a time for which an audit lacks the record of a gateway, or the number of gateways.
type Gap struct {
	Gateway string    `json:"gateway,omitempty"` // whose record is missing; "" if its id is not known
	Path    string    `json:"file,omitempty"`    // of the record without the number of gateways; "" otherwise
	Missing int       `json:"records"`           // 0 with Path
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
}

// Gaps returns what is missing in the time that all records cover, and the largest number of gateways that they count in it. Records with
// the same id are of one gateway.
func (r *AuditReport) Gaps() (gaps []Gap, gateways int) {
	from, to, ok := r.Covered()
	if !ok {
		return nil, 0
	}
	recorded, records := r.recorded()
	for _, p := range r.Periods {
		for i, m := range p.Memberships {
			g := Gap{From: later(m.From, from), To: to, Path: p.Path}
			if i == 0 {
				g.From = from // what the oldest line has is true of the requests before it
			}
			if g.From.After(to) || !m.To.IsZero() && !m.To.After(from) {
				continue
			}
			if !m.To.IsZero() && m.To.Before(to) {
				g.To = m.To
			}
			gateways = max(gateways, m.Count)
			gaps = addGaps(gaps, g, m.Gateways, recorded, records)
		}
	}
	return gaps, gateways
}

// addGaps adds what is missing in the time of the gap.
func addGaps(gaps []Gap, g Gap, counted Gateways, recorded map[string]bool, records int) []Gap {
	if counted.Count == 0 {
		return addGap(gaps, g)
	}
	g.Path = ""
	for _, id := range counted.IDs {
		if !recorded[id] {
			named := g
			named.Gateway, named.Missing = id, 1
			gaps = addGap(gaps, named)
		}
	}
	if g.Missing = counted.Count - max(records, len(counted.IDs)); g.Missing > 0 {
		gaps = addGap(gaps, g)
	}
	return gaps
}

// addGap adds a gap, or extends that of the same gateway, as each record counts it.
func addGap(gaps []Gap, g Gap) []Gap {
	i := slices.IndexFunc(gaps, func(other Gap) bool {
		return other.Gateway == g.Gateway && other.Path == g.Path && !other.From.After(g.To) && !g.From.After(other.To)
	})
	if i < 0 {
		return append(gaps, g)
	}
	same := &gaps[i]
	if g.From.Before(same.From) {
		same.From = g.From
	}
	same.To, same.Missing = later(same.To, g.To), max(same.Missing, g.Missing)
	return gaps
}

// recorded returns the ids of the gateways with a record, and the number of records, of which some may be of one gateway.
func (r *AuditReport) recorded() (ids map[string]bool, records int) {
	ids = make(map[string]bool)
	for _, p := range r.Periods {
		isCopy := false
		for _, m := range p.Memberships {
			isCopy = isCopy || ids[m.ID]
		}
		for _, m := range p.Memberships {
			if m.ID != "" {
				ids[m.ID] = true
			}
		}
		if !isCopy {
			records++
		}
	}
	return ids, records
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
