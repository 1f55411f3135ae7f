package responses

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func FuzzAcceptEncoding(f *testing.F) {
	for _, s := range []string{
		"gzip;q=0.5, *", "", "*;q=0", "identity, X-GZIP ; Q=1.000", "br,gzip;q=0.000", ",;,", "gzip;q=1;q=0", "*\t;\tq=0.001", "*;\tq=0",
		"gzip", "GZIP", "gzip;q=0", "gzip; q=0.000", "*", "gzip;q=0, *", "identity", "br;q=1.0, *;q=0.1",
	} {
		f.Add(s)
	}
	item := regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z-]+)[ \t]*(?:;[ \t]*[qQ]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$`)
	f.Fuzz(func(t *testing.T, header string) {
		got := acceptsGzip([]string{header})
		weights := map[string]float64{}
		for entry := range strings.SplitSeq(header, ",") {
			match := item.FindStringSubmatch(strings.Trim(entry, " \t"))
			if match == nil {
				return // not a valid header
			}
			name := strings.TrimPrefix(strings.ToLower(match[1]), "x-")
			if _, twice := weights[name]; twice {
				return
			}
			if weights[name] = 1; match[2] != "" {
				weights[name], _ = strconv.ParseFloat(match[2], 64)
			}
		}
		weight, named := weights["gzip"]
		if !named {
			weight = weights["*"]
		}
		if want := weight > 0; got != want {
			t.Errorf("%q: %v", header, got)
		}
	})
}

func FuzzIfNoneMatch(f *testing.F) {
	f.Add(`W/"a", "b-gzip"`, "body")
	f.Add(`*`, "")
	f.Add(`"6d1ab1e8e01fa1dc"`, "")
	f.Add(`"ef46db3751d8e999-gzip" ,W/"x"`, "")
	item := regexp.MustCompile(`^(?:W/)?"([\x21\x23-\x2b\x2d-\x7e]*)"$`) // without the comma, which our tags do not contain
	f.Fuzz(func(t *testing.T, header, body string) {
		for _, zipped := range []bool{false, true} {
			tag := entityTag([]byte(body), zipped)
			if !item.MatchString(tag) {
				t.Errorf("%q is not a strong tag", tag)
			}
			got := matchesTag([]string{header}, tag)
			if !matchesTag([]string{header, "W/" + tag}, tag) || !matchesTag([]string{header + "," + tag}, tag) {
				t.Errorf("%q does not match itself after %q", tag, header)
			}
			want, opaque := false, strings.TrimSuffix(strings.Trim(tag, `"`), gzipSuffix)
			for entry := range strings.SplitSeq(header, ",") {
				entry = strings.Trim(entry, " \t")
				match := item.FindStringSubmatch(entry)
				if len(match) == 0 && entry != "*" && entry != "" {
					return
				}
				want = want || entry == "*" || len(match) > 0 && strings.TrimSuffix(match[1], gzipSuffix) == opaque
			}
			if got != want {
				t.Errorf("%q matches %q: %v", header, tag, got)
			}
		}
	})
}
