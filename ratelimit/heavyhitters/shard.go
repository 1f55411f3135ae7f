package heavyhitters

// A shard is a sketch of some of the tokens. Counts are floating-point numbers, which are halved without rounding.
type shard struct {
	byToken  map[string]int32 // the counter of each token
	counters []counter
	heap     []node  // a min-heap: heap[i] ≤ heap[2i+1], heap[2i+2]
	places   []int32 // of each counter in the heap
}

// A counter counts the requests of one token.
type counter struct {
	token, team   string
	denied, error float64 // the count of its requests is in the heap
}

// A node is an element of the heap. It has the count itself, so that operations on the heap read no counters.
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
		i = s.assign(tokenID, teamID)
	}
	if denied {
		s.counters[i].denied++
	}
	at := s.places[i]
	s.heap[at].requests++
	s.siftDown(at)
}

// assign returns a counter for a new token: an unused one, or else the smallest.
func (s *shard) assign(tokenID, teamID string) int32 {
	c := counter{token: tokenID, team: teamID}
	var i int32
	if len(s.counters) < cap(s.counters) {
		i = int32(len(s.counters))
		s.counters = append(s.counters, c)
		s.heap = append(s.heap, node{counter: i})
		s.places = append(s.places, i)
		s.siftUp(i)
	} else {
		smallest := s.heap[0]
		i = smallest.counter
		delete(s.byToken, s.counters[i].token)
		c.error = smallest.requests
		s.counters[i] = c
	}
	s.byToken[tokenID] = i
	return i
}

// siftDown restores the heap after the count at an index has increased.
func (s *shard) siftDown(at int32) {
	increased, n := s.heap[at], int32(len(s.heap))
	for {
		child := 2*at + 1
		if child+1 < n && s.heap[child+1].requests < s.heap[child].requests {
			child++
		}
		if child >= n || s.heap[child].requests >= increased.requests {
			break
		}
		s.put(at, s.heap[child])
		at = child
	}
	s.put(at, increased)
}

// siftUp restores the heap after a counter of 0 was appended at an index.
func (s *shard) siftUp(at int32) {
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

// decay halves all counts, which keeps their order.
func (s *shard) decay() {
	for i := range s.counters {
		s.counters[i].denied /= 2
		s.counters[i].error /= 2
		s.heap[i].requests /= 2
	}
}

// appendEntries appends the tokens with a count of at least minListed.
func (s *shard) appendEntries(all []Entry) []Entry {
	for _, n := range s.heap {
		if n.requests < minListed {
			continue
		}
		c := &s.counters[n.counter]
		requests, certain := roundUp(n.requests), uint64(n.requests-c.error+rounding)
		all = append(all, Entry{
			TokenID: c.token, TeamID: c.team,
			Requests: requests, Denied: roundUp(c.denied), Error: requests - certain,
		})
	}
	return all
}
