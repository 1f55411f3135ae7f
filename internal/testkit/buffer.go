package testkit

import (
	"bytes"
	"sync"
)

// A Buffer is written to by one goroutine and read by another. The zero value is empty and ready
// for use.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to what has been written. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that has been written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
