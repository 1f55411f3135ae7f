package jsonw

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestDocumentWithEveryType(t *testing.T) {
	text, whole, wide := "x", int32(-7), int64(math.MaxInt64)
	var w Writer
	w.BeginObject()
	w.String("text", `a"b\c`)
	w.StringOrNull("some", &text)
	w.StringOrNull("none", nil)
	w.Strings("list", []string{"a", "b"})
	w.Strings("empty", nil)
	w.Bool("yes", true)
	w.Int("int", -12)
	IntOrNull(&w, "int32", &whole)
	IntOrNull(&w, "int64", &wide)
	IntOrNull[int32](&w, "noInt", nil)
	w.Float("float", 12.5)
	w.Time("at", timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 678_999_999, time.UTC)))
	w.Null("never")
	w.Array("objects")
	w.BeginObject()
	w.EndObject()
	w.BeginObject()
	w.StringEscapedName(`na"me`, "v")
	w.EndObject()
	w.EndArray()
	w.Object("nested")
	w.Null("null")
	w.EndObject()
	w.EndObject()

	want := `{"text":"a\"b\\c","some":"x","none":null,"list":["a","b"],"empty":[],"yes":true,"int":-12,"int32":-7,` +
		`"int64":9223372036854775807,"noInt":null,"float":12.5,"at":"2026-01-02T03:04:05.678Z","never":null,` +
		`"objects":[{},{"na\"me":"v"}],"nested":{"null":null}}`
	if diff := cmp.Diff(want, string(w.Bytes())); diff != "" {
		t.Error(diff)
	}
	if !json.Valid(w.Bytes()) || w.Err() != nil {
		t.Errorf("valid %v, error %v", json.Valid(w.Bytes()), w.Err())
	}
}

func TestUnrepresentableValueIsAnError(t *testing.T) {
	cases := map[string]func(*Writer){
		"NaN":         func(w *Writer) { w.Float("f", math.NaN()) },
		"infinite":    func(w *Writer) { w.Float("f", math.Inf(-1)) },
		"absent time": func(w *Writer) { w.Time("f", nil) },
		"year 10000":  func(w *Writer) { w.Time("f", &timestamppb.Timestamp{Seconds: 253402300800}) },
		"bad nanos":   func(w *Writer) { w.Time("f", &timestamppb.Timestamp{Nanos: -1}) },
	}
	for name, write := range cases {
		t.Run(name, func(t *testing.T) {
			var w Writer
			w.BeginObject()
			write(&w)
			w.Fail("later", "is not reported")
			if err := w.Err(); !errors.Is(err, ErrUnrepresentable) || !bytes.Contains([]byte(err.Error()), []byte(`"f"`)) {
				t.Errorf("error = %v", err)
			}
			w.Reset()
			if w.Err() != nil || len(w.Bytes()) != 0 {
				t.Error("Reset keeps the error")
			}
		})
	}
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "ü€😀", "\xff\xc3", "\u2028\u2029", "<>&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var w Writer
		w.BeginObject()
		w.StringEscapedName(s, s)
		w.EndObject()
		var got map[string]string
		if err := json.Unmarshal(w.Bytes(), &got); err != nil {
			t.Fatalf("%q: %s: %v", s, w.Bytes(), err)
		}
		text := string([]rune(s)) // invalid UTF-8 becomes U+FFFD
		if diff := cmp.Diff(map[string]string{text: text}, got); diff != "" {
			t.Errorf("%q: %s", s, diff)
		}
	})
}

func FuzzFloat(f *testing.F) {
	for _, v := range []float64{0, 1, -1, 0.1, 1e20, 1e21, 1e-6, 1e-7, 1e-10, math.MaxFloat64, math.SmallestNonzeroFloat64, 99.999} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		var w Writer
		w.Float("f", v)
		want, err := json.Marshal(v)
		if err != nil {
			if w.Err() == nil {
				t.Errorf("%v: no error", v)
			}
			return
		}
		if got := string(w.Bytes()); got != `"f":`+string(want) {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func FuzzTime(f *testing.F) {
	f.Add(int64(0), int32(0))
	f.Add(int64(-62135596800), int32(999_999_999))
	f.Add(int64(253402300799), int32(999_999_999))
	f.Add(int64(-1), int32(999_000_000))
	f.Add(int64(951_825_600), int32(1_000_000)) // 29 February 2000
	f.Fuzz(func(t *testing.T, seconds int64, nanos int32) {
		at := &timestamppb.Timestamp{Seconds: seconds, Nanos: nanos}
		var w Writer
		w.Time("t", at)
		if at.CheckValid() != nil {
			if w.Err() == nil {
				t.Error("no error")
			}
			return
		}
		want := `"t":"` + at.AsTime().Format("2006-01-02T15:04:05.000Z") + `"`
		if got := string(w.Bytes()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
