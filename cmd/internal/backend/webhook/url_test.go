package webhook_test

import (
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/webhook"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()
	const host = "the host must be a full domain name, not an address"
	const noHost = "the URL must have a host"
	const port = "the port must be 443, which is the default"
	longest := "https://hooks.example/" + strings.Repeat("a", 2000-len("https://hooks.example/"))
	for _, c := range []struct{ url, want string }{
		{"https://hooks.example/in?key=v&x=%20", ""},
		{"https://HOOKS.example:443/", ""},
		{"HTTPS://a-b.xn--bcher-kva.example/", ""},
		{"https://" + strings.Repeat("a", 63) + ".example/", ""},
		{longest, ""},
		{longest + "a", "the URL must have at most 2000 characters"},
		{"http://hooks.example/", "the URL must begin with https://"},
		{"hooks.example", "the URL must begin with https://"},
		{"", "the URL must begin with https://"},
		{"https:hooks.example", noHost},
		{"https://user:password@hooks.example/", "the URL must have no user name or password"},
		{"https://hooks.example/#part", "the URL must have no fragment"},
		{"https://hooks.example/a b", "the URL must consist of visible ASCII characters"},
		{"https://bücher.example/", "the URL must consist of visible ASCII characters"},
		{"https://hooks.example/%zz", "the URL is malformed"},
		{"https://localhost/", host},
		{"https://hooks.example./", host},
		{"https://hooks..example/", host},
		{"https://hooks_.example/", host},
		{"https://" + strings.Repeat("a", 64) + ".example/", host},
		{"https://" + strings.Repeat("a.", 130) + "example/", host},
		{"https://93.184.216.34/", host},
		{"https://127.1/", host},
		{"https://2130706433/", host},
		{"https://0x7f.0.0.0x1/", host},
		{"https://[::1]/", host},
		{"https://[::ffff:127.0.0.1]/", host},
		{"https://hooks.example:8443/", port},
		{"https://hooks.example:0443/", port},
		{"https://hooks.example:80/", port},
		{"https://hooks.example:65979/", port}, // 443 + 65536
	} {
		got := ""
		if err := webhook.CheckURL(c.url, false); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.url, got, c.want)
		}
	}
	for url, valid := range map[string]bool{
		"http://hooks.example/": true, "https://hooks.example/": true, "http://127.0.0.1:3000/hook": true, "http://localhost:8080": true,
		"http://[::1]:8080/": true, "http:///hook": false, "http://:80/": false, "ftp://hooks.example/": false,
		"http://user@hooks.example/": false,
	} {
		if err := webhook.CheckURL(url, true); (err == nil) != valid {
			t.Errorf("%s: %v with HTTP allowed", url, err)
		}
	}
}

func TestNormalise(t *testing.T) {
	for text, want := range map[string]string{
		"HTTPS://Hooks.Example:443/Path?Key=A": "https://hooks.example/Path?Key=A",
		"https://hooks.example?Key=A":          "https://hooks.example?Key=A",
		"http://Hooks.Example:80":              "http://hooks.example",
		"http://127.0.0.1:443/":                "http://127.0.0.1:443/",
		"https://hooks.example/a:443":          "https://hooks.example/a:443",
	} {
		if got := webhook.Normalise(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"https://hooks.example/secret?Key=A": "https://hooks.example/…", "http://127.0.0.1:3000/hook": "http://127.0.0.1:3000/…", "https://[": "…",
	} {
		if got := webhook.Shown(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
