package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"opsgate/cmd/internal/backend/store"
)

const (
	// pageTimeout bounds the reading of a request and the writing of its response.
	pageTimeout = 10 * time.Second
	// pageGrace is how long requests in progress may take after ctx has ended.
	pageGrace = 5 * time.Second
	// maxPageHeader bounds the header of a request.
	maxPageHeader = 16 << 10
)

// newRegistry returns a registry with the metrics of the process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// databaseSize returns the metric of the size of the database.
func databaseSize(data *store.Store) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "opsbackend_database_bytes",
		Help: "Size of the database's file and its write-ahead log; NaN if it cannot be read.",
	}, func() float64 {
		size, err := data.Size()
		if err != nil {
			return math.NaN()
		}
		return float64(size)
	})
}

// adminPage returns the handler of the admin listener.
func adminPage(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}

// listeners are open until a function closes them.
type listeners []net.Listener

func (l *listeners) listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	*l = append(*l, listener)
	return listener, nil
}

func (l *listeners) close() {
	for _, listener := range *l {
		_ = listener.Close() // nothing has used it
	}
}

// serveHTTP serves until ctx ends and requests in progress have ended.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: pageTimeout, ReadTimeout: pageTimeout, WriteTimeout: pageTimeout,
		MaxHeaderBytes: maxPageHeader,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageGrace)
		defer cancel()
		stopped <- server.Shutdown(limited)
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	err := <-stopped
	// a client keeps its connection open without a request, or does not read its response
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}
