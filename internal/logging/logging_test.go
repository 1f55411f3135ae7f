package logging_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"opsgate/internal/logging"
)

// A recorder records each write.
type recorder struct {
	mu     sync.Mutex
	writes []string
	err    error
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, string(p))
	return len(p), r.err
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.writes)
}

func (r *recorder) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.writes, "")
}

func closed(t *testing.T, log *logging.Log) {
	t.Helper()
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

func TestLinesBelowWarnAreWrittenTogetherAfter100ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(recorder)
		log := logging.New(logging.Options{Writer: out})
		defer closed(t, log)
		for round := 1; round <= 3; round++ { // the pause between rounds starts a new batch
			log.Info("first")
			log.Info("second")
			time.Sleep(99 * time.Millisecond)
			synctest.Wait()
			if got := out.count(); got != round-1 {
				t.Fatalf("round %d: %d writes after 99 ms", round, got)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if got := out.count(); got != round {
				t.Fatalf("round %d: %d writes after 100 ms", round, got)
			}
			time.Sleep(time.Minute)
		}
		if got := strings.Count(out.writes[0], "\n"); got != 2 {
			t.Errorf("%d lines in one write", got)
		}
	})
}

func TestWarningsAreWrittenAtOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, level := range []slog.Level{slog.LevelWarn, slog.LevelError} {
			out := new(recorder)
			log := logging.New(logging.Options{Writer: out})
			log.Info("before")
			log.WithGroup("group").With("key", "value").Log(t.Context(), level, "urgent")
			synctest.Wait()
			if got := out.all(); out.count() != 1 || !strings.Contains(got, "before") || !strings.HasSuffix(got, "\"group\":{\"key\":\"value\"}}\n") {
				t.Errorf("%s: got %q", level, got)
			}
			closed(t, log)
		}
	})
}

func TestAFullBatchIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(recorder)
		log := logging.New(logging.Options{Writer: out})
		defer closed(t, log)
		for range 100 {
			log.Info("line", "text", strings.Repeat("x", 1000))
			if synctest.Wait(); out.count() > 0 {
				break
			}
		}
		if size := len(out.all()); size < 64<<10 || size > 66<<10 {
			t.Errorf("the batch has %d bytes", size)
		}
	})
}

func TestCloseWritesBufferedLines(t *testing.T) {
	out := new(recorder)
	log := logging.New(logging.Options{Writer: out, Text: true, Level: slog.LevelDebug})
	log.Debug("last line", "key", "value")
	closed(t, log)
	closed(t, log)
	log.Info("after close")
	if got := out.all(); !strings.Contains(got, "level=DEBUG msg=\"last line\" key=value\n") || !strings.HasSuffix(got, "msg=\"after close\"\n") {
		t.Errorf("got %q", got)
	}
}

func TestCloseReturnsTheErrorOfTheWriter(t *testing.T) {
	log := logging.New(logging.Options{Writer: &recorder{err: io.ErrShortWrite}})
	log.Info("line")
	if err := log.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v", err)
	}
}

func TestConcurrentLinesAreWholeAndInOrderPerGoroutine(t *testing.T) {
	const writers, lines = 8, 2000
	out := new(recorder)
	log := logging.New(logging.Options{Writer: out})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range lines {
				log.Info("line", "writer", w, "i", i, "padding", strings.Repeat("y", 100))
				if i%500 == 0 {
					log.Warn("line that is written at once")
				}
			}
		})
	}
	wg.Wait()
	closed(t, log)
	next := make([]int, writers)
	for line := range strings.Lines(out.all()) {
		var decoded struct {
			Writer *int
			I      int
		}
		if err := json.Unmarshal([]byte(line), &decoded); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if decoded.Writer == nil {
			continue
		}
		if next[*decoded.Writer] != decoded.I {
			t.Fatalf("writer %d: got line %d, want %d", *decoded.Writer, decoded.I, next[*decoded.Writer])
		}
		next[*decoded.Writer]++
	}
	for w, n := range next {
		if n != lines {
			t.Errorf("writer %d: %d lines", w, n)
		}
	}
}

// A held writer blocks until release is closed.
type held struct {
	recorder

	release chan struct{}
}

func (h *held) Write(p []byte) (int, error) {
	<-h.release
	return h.recorder.Write(p)
}

func TestLoggingDoesNotWaitForAReaderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines = 10_000
		out := &held{release: make(chan struct{})}
		log := logging.New(logging.Options{Writer: out})
		log.Warn("first") // blocks the writer
		synctest.Wait()
		for i := range lines {
			log.Info("line", "i", i, "padding", strings.Repeat("z", 1000))
			log.Error("line that is to be written at once")
		}
		close(out.release)
		synctest.Wait()
		closed(t, log)
		all := out.all()
		kept, reported := strings.Count(all, "\n")-2, 0
		if _, last, ok := strings.Cut(all, `"msg":"log lines were dropped because the log was not read","lines":`); ok {
			reported, _ = strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(last), "}")))
		}
		if kept+reported != 2*lines || reported == 0 || len(all) < 4<<20 || len(all) > 5<<20 {
			t.Errorf("%d lines in %d bytes, %d reported as dropped", kept, len(all), reported)
		}
	})
}

func TestCloseReportsDroppedLines(t *testing.T) {
	for range 10 { // run or Close may report first
		synctest.Test(t, func(t *testing.T) {
			out := &held{release: make(chan struct{})}
			log := logging.New(logging.Options{Writer: out})
			log.Warn("first") // blocks the writer
			synctest.Wait()
			for range 5 {
				log.Info("line", "padding", strings.Repeat("z", 1<<20))
			}
			end := make(chan error)
			go func() { end <- log.Close() }()
			synctest.Wait()
			close(out.release)
			if err := <-end; err != nil || strings.Count(out.all(), "log lines were dropped") != 1 {
				t.Errorf("%v, and dropped lines are not reported", err)
			}
		})
	}
}

func TestCloseWaitsOneSecondForAReaderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &held{release: make(chan struct{})}
		log := logging.New(logging.Options{Writer: out})
		log.Warn("line")
		synctest.Wait()
		begun := time.Now()
		closed(t, log)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("closed after %v", took)
		}
		close(out.release)
	})
}

func TestAChangedLevelAppliesToDerivedLoggers(t *testing.T) {
	out, level := new(recorder), new(slog.LevelVar)
	log := logging.New(logging.Options{Writer: out, Level: level})
	derived := log.With(slog.String("part", "test")).WithGroup("group")
	for _, step := range []struct {
		level slog.Level
		want  bool
	}{{slog.LevelInfo, true}, {slog.LevelError, false}, {slog.LevelDebug, true}} {
		level.Set(step.level)
		if got := derived.Enabled(t.Context(), slog.LevelInfo); got != step.want {
			t.Errorf("%v: info is logged: %t", step.level, got)
		}
		derived.Log(t.Context(), step.level-1, "below the level")
	}
	closed(t, log)
	if got := out.all(); got != "" {
		t.Errorf("got %q", got)
	}
}
