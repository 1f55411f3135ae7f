package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"opsgate/authn"
	"opsgate/gateway/openapi/openapitest"
	fleetv1 "opsgate/proto/ops/fleet/v1"
	incidentv1 "opsgate/proto/ops/incident/v1"
)

var update = flag.Bool("update", false, "write testdata/views.golden instead of comparing with it")

// viewsFile has the response bodies of all operations, indented for the reader.
const viewsFile = "testdata/views.golden"

// TestViews compares the response of every operation, byte for byte, with testdata/views.golden: once with every field of the
// service's answer set, and once without the optional ones. -update writes the file; review its diff.
func TestViews(t *testing.T) {
	h := start(t)
	validator := openapitest.New(t)
	got := make(map[string]string)
	var file strings.Builder
	for _, route := range h.gateway.Routes() {
		for variant, s := range map[string]sampler{"all fields": {elements: 2}, "without optional fields": {bare: true}} {
			h.services.on("", func(ctx context.Context, _ proto.Message) (proto.Message, error) {
				answer, filler := newAnswer(t, ctx), s
				filler.fill(answer)
				return answer.Interface(), nil
			})
			title := route.ID + ", " + variant
			got[title] = viewOf(t, h, validator, route)
		}
		for _, variant := range []string{"all fields", "without optional fields"} {
			title := route.ID + ", " + variant
			fmt.Fprintf(&file, "== %s\n%s\n", title, got[title])
		}
	}
	if *update {
		if err := os.WriteFile(viewsFile, []byte(file.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := goldenViews(t)
	for title, body := range got {
		if diff := cmp.Diff(want[title], body); diff != "" {
			t.Errorf("%s: the view differs from %s (-update writes it):\n%s", title, viewsFile, diff)
		}
		delete(want, title)
	}
	for title := range want {
		t.Errorf("%s: %s has a view of no operation (-update writes it)", title, viewsFile)
	}
}

// viewOf returns the indented body of a response. A body that is not compact JSON, of which the indented form would not show every
// byte, fails the test, as does a response that the OpenAPI document does not describe.
func viewOf(t *testing.T, h *harness, validator *openapitest.Validator, route Route) string {
	t.Helper()
	got := h.do(t, "full", route.Method, target(route)+validQuery(route), validBody(route)).mustBe(t, 200)
	var compact, indented bytes.Buffer
	if err := json.Compact(&compact, []byte(got.body)); err != nil || compact.String() != got.body {
		t.Errorf("%s: the body is not compact JSON (%v): %s", route.ID, err, got.body)
	}
	if err := json.Indent(&indented, []byte(got.body), "", "  "); err != nil {
		t.Fatal(err)
	}
	validator.CheckResponse(t, openapitest.Exchange{
		Request: got.Request, RequestBody: []byte(validBody(route)), Status: got.StatusCode, Header: got.Header, Body: []byte(got.body),
	})
	return indented.String()
}

// newAnswer returns an empty answer to the gRPC call that is served.
func newAnswer(t *testing.T, ctx context.Context) protoreflect.Message {
	t.Helper()
	method, _ := grpc.Method(ctx)
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	rpc, _ := descriptor.(protoreflect.MethodDescriptor)
	answer, err := protoregistry.GlobalTypes.FindMessageByName(rpc.Output().FullName())
	if err != nil {
		t.Fatal(err)
	}
	return answer.New()
}

// goldenViews returns the recorded views by their titles.
func goldenViews(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(viewsFile)
	if err != nil {
		t.Fatal(err)
	}
	views := make(map[string]string)
	for section := range strings.SplitSeq("\n"+string(data), "\n== ") {
		title, body, _ := strings.Cut(section, "\n")
		views[title] = strings.TrimSuffix(body, "\n")
	}
	delete(views, "")
	return views
}

func TestMe(t *testing.T) {
	got := start(t).do(t, tokenOf(authn.IncidentsWrite), "GET", "/v1/me", "").mustBe(t, 200)
	want := fmt.Sprintf(`{"teamId":%q,"tokenId":%q,"scopes":["incidents:write"]}`, teamID, tokenID)
	if got.body != want {
		t.Errorf("got %s, want %s", got.body, want)
	}
	if got := start(t).do(t, "none", "GET", "/v1/me", "").body; got != fmt.Sprintf(`{"teamId":%q,"tokenId":%q,"scopes":[]}`, teamID, tokenID) {
		t.Errorf("without scopes: %s", got)
	}
}

func TestReplayedPostsAreMarked(t *testing.T) {
	h := start(t)
	for header, replayed := range map[string]bool{"true": true, "": false} {
		h.services.reply("CreateIncident", &incidentv1.CreateIncidentResponse{Incident: fullIncident(), Replayed: replayed})
		got := h.do(t, "full", "POST", "/v1/incidents", `{"title":"t","status":"resolved","impact":"none","message":"m"}`).mustBe(t, 200)
		if got.Header.Get("Idempotent-Replayed") != header {
			t.Errorf("replayed %v: Idempotent-Replayed %q", replayed, got.Header.Get("Idempotent-Replayed"))
		}
	}
}

func fullServer() *fleetv1.Server { return sample[*fleetv1.Server](0) }

func fullIncident() *incidentv1.Incident { return sample[*incidentv1.Incident](0) }
