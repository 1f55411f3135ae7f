package mail

import (
	"slices"
	"time"
)

// take returns an idle connection, or nil.
func (s *Sender) take() *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		return nil
	}
	c := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	c.timer.Stop()
	return c
}

// keep keeps a connection for the next message, until it has been idle for too long. It returns false after Close.
func (s *Sender) keep(c *connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.idle = append(s.idle, c)
	c.timer = time.AfterFunc(s.options.IdleTimeout, func() { s.expire(c) })
	return true
}

// expire closes a connection if it is idle.
func (s *Sender) expire(c *connection) {
	s.mu.Lock()
	i := slices.Index(s.idle, c)
	if i < 0 {
		s.mu.Unlock()
		return
	}
	s.idle = slices.Delete(s.idle, i, i+1)
	s.closing.Add(1)
	s.mu.Unlock()
	defer s.closing.Done()
	c.quit()
}

// Close closes the idle connections, and waits for it at most a second. Calls of Send in progress close theirs when they return.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	for _, c := range s.idle {
		c.timer.Stop()
		s.closing.Go(c.quit)
	}
	s.idle = nil
	s.mu.Unlock()
	s.closing.Wait()
}
