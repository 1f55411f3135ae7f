package heavyhitters

// A shard is a sketch of some of the tokens. Counts are floating-point numbers, which are halved without rounding.
type shard struct {
	byToken  map[string]int32 // the counter of each token
	counters []counter
	heap     []node  // the smallest first: the i-th is not more than those at 2i+1 and 2i+2
	places   []int32 // of each counter in the heap
}

// A counter counts the requests of one token at a time.
type counter struct {
	token, team   string
	denied, error float64
}

// A node has what is needed to keep the heap in order, so that counters are left alone, which are all over the memory.
type node struct {
	requests float64
	counter  int32
}

func newShard(capacity int) shard {
	return shard{
		byToken:  make(map[string]int32, capacity),
		counters: make([]counter, 0, capacity),
		heap:     make([]node, 0, capacity),
		places:   make([]int32, 0, capacity),
	}
}

func (s *shard) add(tokenID, teamID string, denied bool) {
	i, known := s.byToken[tokenID]
	if !known {
		i = s.take(tokenID, teamID)
	}
	if denied {
		s.counters[i].denied++
	}
	at := s.places[i]
	s.heap[at].requests++
	s.sink(at)
}

// take gives a token a counter: a new one, or the smallest.
func (s *shard) take(tokenID, teamID string) int32 {
	taken := counter{token: tokenID, team: teamID}
	var i int32
	if len(s.counters) < cap(s.counters) {
		i = int32(len(s.counters))
		s.counters = append(s.counters, taken)
		s.heap = append(s.heap, node{counter: i})
		s.places = append(s.places, i)
		s.rise(i)
	} else {
		smallest := s.heap[0]
		i = smallest.counter
		delete(s.byToken, s.counters[i].token)
		taken.error = smallest.requests
		s.counters[i] = taken
	}
	s.byToken[tokenID] = i
	return i
}

// sink brings a counter that grew to its place.
func (s *shard) sink(at int32) {
	grown, n := s.heap[at], int32(len(s.heap))
	for {
		child := 2*at + 1
		if child+1 < n && s.heap[child+1].requests < s.heap[child].requests {
			child++
		}
		if child >= n || s.heap[child].requests >= grown.requests {
			break
		}
		s.put(at, s.heap[child])
		at = child
	}
	s.put(at, grown)
}

// rise brings a counter that has counted nothing to its place.
func (s *shard) rise(at int32) {
	for parent := (at - 1) / 2; at > 0 && s.heap[parent].requests > 0; parent = (at - 1) / 2 {
		s.put(at, s.heap[parent])
		at = parent
	}
	s.put(at, node{counter: int32(len(s.counters)) - 1})
}

func (s *shard) put(at int32, n node) {
	s.heap[at] = n
	s.places[n.counter] = at
}

// fade halves all counts. Their order stays.
func (s *shard) fade() {
	for i := range s.counters {
		s.counters[i].denied /= 2
		s.counters[i].error /= 2
		s.heap[i].requests /= 2
	}
}

// appendEntries appends what was counted of late.
func (s *shard) appendEntries(all []Entry) []Entry {
	for _, n := range s.heap {
		if n.requests < faint {
			continue
		}
		c := &s.counters[n.counter]
		requests, surely := whole(n.requests), uint64(n.requests-c.error+rounding)
		all = append(all, Entry{
			TokenID: c.token, TeamID: c.team,
			Requests: requests, Denied: whole(c.denied), Error: requests - surely,
		})
	}
	return all
}
