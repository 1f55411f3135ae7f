package service_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"opsgate/cmd/internal/backend/service"
	"opsgate/cmd/internal/backend/store"
	"opsgate/internal/testkit"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

// A full disk refuses writes as UNAVAILABLE, and leaves reads alone. Nothing that was acknowledged
// is lost, and writes work as soon as there is space.
func TestFullDiskRefusesWritesOnly(t *testing.T) {
	dir := testkit.SmallDisk(t)
	var log bytes.Buffer
	s := startWith(t, service.Options{DataDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))}, &clock{now: start()})
	team := s.team("harbour")
	ballast := filepath.Join(dir, "ballast")
	s.create(newIncident(team, "before"))
	testkit.Fill(t, ballast)
	var refused error
	created := 1
	for refused == nil && created < 1000 { // the log of SQLite may have space for some
		if _, refused = s.incident.CreateIncident(t.Context(), newIncident(team, fmt.Sprint("incident ", created))); refused == nil {
			created++
		}
	}
	if status.Code(refused) != codes.Unavailable || !strings.Contains(refused.Error(), filepath.Join(dir, store.FileName)) {
		t.Errorf("a write with a full disk: %v", refused)
	}
	list, err := s.incident.ListIncidents(t.Context(), &incidentv1.ListIncidentsRequest{TeamId: team.id, PageSize: 100})
	if err != nil || len(list.GetIncidents()) != min(created, 100) {
		t.Errorf("%d incidents, %v; %d were created", len(list.GetIncidents()), err, created)
	}
	testkit.Must(t, os.Remove(ballast))
	s.create(newIncident(team, "after"))
	if n := s.count("incidents"); n != created+1 {
		t.Errorf("%d incidents are stored, %d were acknowledged", n, created+1)
	}
	s.close()
	if !strings.Contains(log.String(), "no space to write to "+filepath.Join(dir, store.FileName)) {
		t.Errorf("logged:\n%s", log.String())
	}
}

// A start on a full disk ends with an error that names the next step, whether there is a database
// or not.
func TestOpenOnAFullDiskNamesTheNextStep(t *testing.T) {
	for name, prepare := range map[string]func(dir string){
		"no database": func(string) {},
		"a database": func(dir string) {
			startWith(t, service.Options{DataDir: dir}, &clock{now: start()}).close()
		},
	} {
		dir := testkit.SmallDisk(t)
		prepare(dir)
		testkit.Fill(t, filepath.Join(dir, "ballast"))
		backend, err := service.Open(t.Context(), service.Options{DataDir: dir})
		if file, ok := errors.AsType[*store.FileError](err); !ok || !file.Full || !strings.Contains(err.Error(), "free space on its file system") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			testkit.Must(t, backend.Close())
		}
	}
}

// A damaged page fails the calls that read it, and is logged once a minute, with the file and what
// to do.
func TestDamagedPageIsReportedOnceAMinute(t *testing.T) {
	var log testkit.Buffer
	dir := t.TempDir()
	first := startWith(t, service.Options{DataDir: dir}, &clock{now: start()})
	team := first.team("harbour")
	for i := range 50 {
		first.create(newIncident(team, fmt.Sprint("incident ", i)))
	}
	var page, size int64
	file := first.file()
	testkit.Must(t, file.QueryRow("SELECT rootpage FROM sqlite_master WHERE name = 'incidents'").Scan(&page))
	testkit.Must(t, file.QueryRow("PRAGMA page_size").Scan(&size))
	first.exec("PRAGMA wal_checkpoint(TRUNCATE)")
	first.close()
	path := filepath.Join(dir, store.FileName)
	database, err := os.OpenFile(path, os.O_WRONLY, 0)
	testkit.Must(t, err)
	_, err = database.WriteAt(bytes.Repeat([]byte{0xff}, int(size)), (page-1)*size)
	testkit.Must(t, errors.Join(err, database.Close()))

	s := startWith(t, service.Options{DataDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))}, &clock{now: start()})
	call := func() {
		_, err := s.incident.ListIncidents(t.Context(), &incidentv1.ListIncidentsRequest{TeamId: team.id, PageSize: 10})
		if status.Code(err) != codes.DataLoss || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore the last backup") {
			t.Errorf("got %v", err)
		}
	}
	for range 5 {
		call()
	}
	s.clock.Move(time.Minute)
	call()
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	s.close()
}
