package demo_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"hash"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"opsgate/internal/testkit"
	"opsgate/proto/contract"
)

var update = flag.Bool("update", false, "record testdata/still.sha256 again")

// The still demo data never changes: clients, recorded answers and documents rely on its ids and
// numbers. The file has a digest of all responses of each method that reads, for all teams,
// resources, ranges and pages, at the time of the data and later.
func TestStillDataIsByteForByteTheSame(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		testkit.SkipWithout(t, "amd64", "Go may round the generated metrics differently where it fuses multiplications with additions")
	}
	var got strings.Builder
	for _, later := range []time.Duration{0, 17 * time.Minute, 26 * time.Hour} {
		d := digests{}
		s := startSystemAt(t, now().Add(later), grpc.WithUnaryInterceptor(d.intercept))
		s.readEverything(now().Add(later))
		for _, method := range contract.Methods() {
			if _, called := d[method.Path()]; !called && !method.Writes() && method.String() != "identity/WatchRevocations" {
				t.Errorf("readEverything does not call %s", method)
			}
		}
		got.WriteString(d.text(later))
	}
	file := filepath.Join("testdata", "still.sha256")
	if *update {
		testkit.Must(t, os.WriteFile(file, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	testkit.Must(t, err)
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("the still demo data has changed; only lines of a new method may be recorded, with -update:\n%s", diff)
	}
}

// digests holds a digest of the responses of each method, by its path.
type digests map[string]*digest

type digest struct {
	hash      hash.Hash
	responses int
}

// text returns a line for each method.
func (d digests) text(later time.Duration) string {
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(d)) {
		fmt.Fprintf(&text, "%x  +%v %s, %d responses\n", d[path].hash.Sum(nil), later, path, d[path].responses)
	}
	return text.String()
}

// intercept adds each response to the digest of its method.
func (d digests) intercept(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if err := invoke(ctx, method, request, response, conn, options...); err != nil {
		return err
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(response.(proto.Message))
	if err != nil {
		return err
	}
	if d[method] == nil {
		d[method] = &digest{hash: sha256.New()}
	}
	d[method].responses++
	d[method].hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
	d[method].hash.Write(text)
	return nil
}

// readEverything calls each method that reads, for all teams.
func (s *system) readEverything(now time.Time) {
	s.t.Helper()
	for _, token := range slices.Sorted(maps.Keys(s.tokens)) {
		if token != "revoked" {
			s.teamOf(token)
		}
	}
	methods := slices.DeleteFunc(contract.Methods(), func(m contract.Method) bool { return m.Writes() || !m.TeamScoped() })
	slices.SortStableFunc(methods, func(a, b contract.Method) int {
		return cmp.Compare(min(1, len(a.Resource())), min(1, len(b.Resource())))
	})
	for _, token := range []string{"full", "other_team", "no_plan"} {
		target := contract.Target{Team: s.teamOf(token), Since: now.Add(-30 * 24 * time.Hour)}
		resources := map[string][]string{"": {""}} // IDs by kind, from the lists of the team
		for _, m := range methods {
			for _, target.Resource = range resources[m.Resource()] {
				ids := s.read(m, m.ReadRequest(target).ProtoReflect())
				if m.Resource() == "" && m.Rows() != nil {
					resources[strings.TrimSuffix(string(m.Rows().Name()), "s")] = ids
				}
			}
		}
	}
}

// read calls a method with all ranges and reads all of its pages, and returns the IDs of the rows.
func (s *system) read(m contract.Method, request protoreflect.Message) (ids []string) {
	s.t.Helper()
	fields := request.Descriptor().Fields()
	cursor, page, span, size := fields.ByName("cursor"), fields.ByName("page"), fields.ByName("range"), fields.ByName("page_size")
	if size != nil {
		request.Set(size, protoreflect.ValueOfInt32(17))
	}
	for {
		message := m.NewResponse()
		testkit.Must(s.t, s.conn.Invoke(s.t.Context(), m.Path(), request.Interface(), message))
		response, rows := message.ProtoReflect(), 0
		if m.Rows() != nil {
			list := response.Get(m.Rows()).List()
			rows = list.Len()
			for i := range rows {
				if id := m.Rows().Message().Fields().ByName("id"); id != nil {
					ids = append(ids, list.Get(i).Message().Get(id).String())
				}
			}
		}
		switch {
		case cursor != nil:
			next := response.Get(response.Descriptor().Fields().ByName("next_cursor"))
			if next.String() == "" {
				return ids
			}
			request.Set(cursor, next)
		case page != nil && rows > 0:
			request.Set(page, protoreflect.ValueOfInt32(int32(request.Get(page).Int())+1))
		case span != nil && int(request.Get(span).Enum())+1 < span.Enum().Values().Len():
			request.Set(span, protoreflect.ValueOfEnum(request.Get(span).Enum()+1))
		default:
			return ids
		}
	}
}
