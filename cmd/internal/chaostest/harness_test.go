package chaostest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

var (
	full = flag.Bool("full", false, "take as long as the table says, and hold every bound")

	// programs is the folder of the programs, built once for all tests of the package.
	programs string
	// table is what was measured.
	table struct {
		sync.Mutex
		rows [][4]string
	}
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "chaostest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs = dir
	args := append([]string{"build", "-o", dir}, raceFlag...)
	build := exec.Command("go", append(args, "opsgate/cmd/opsgate", "opsgate/cmd/opsbackend")...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the programs:", err)
		return 1
	}
	code := m.Run()
	if *full {
		printTable()
	}
	return code
}

func printTable() {
	table.Lock()
	defer table.Unlock()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "\nROW\tWHAT\tFIGURE\tBOUND")
	for _, row := range table.rows {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row[0], row[1], row[2], row[3])
	}
	_ = w.Flush()
}

// note records a figure beside its bound.
func note(t *testing.T, row, what, figure, bound string) {
	t.Helper()
	t.Logf("row %s | %s | %s | %s", row, what, figure, bound)
	table.Lock()
	defer table.Unlock()
	table.rows = append(table.rows, [4]string{row, what, figure, bound})
}

// took returns the time that the table gives something in the full form, and the other one in the short form.
func took(inFull, inShort time.Duration) time.Duration {
	if *full {
		return inFull
	}
	return inShort
}

// within fails the test where a time is more than its bound; in the short form, where it is more than that and a second, since the
// machine does other things too.
func within(t *testing.T, row, what string, got, bound time.Duration) {
	t.Helper()
	note(t, row, what, got.Round(time.Millisecond/10).String(), "at most "+bound.String())
	if !*full {
		bound += time.Second
	}
	if got > bound {
		t.Errorf("%s: %v, at most %v", what, got, bound)
	}
}

func program(name string) string { return filepath.Join(programs, name) }
