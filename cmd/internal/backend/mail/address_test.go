package mail_test

import (
	"slices"
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/mail"
)

func TestCheckAddress(t *testing.T) {
	labels := strings.Repeat(strings.Repeat("d", 62)+".", 3)
	valid := []string{
		"ada@harbour.example", "ada.lovelace+status@mail.harbour.example", "o'neil@harbour.example", "!#$%&'*+-/=?^_`{|}~@harbour.example",
		"ada@xn--hfen-5qa.example", "ada@3com.example", strings.Repeat("a", 64) + "@harbour.example", "a@" + labels + strings.Repeat("e", 63),
	}
	invalid := []string{
		"", "@", "a@", "@harbour.example", "harbour.example", "ada@localhost", "ada@harbour", "ada@127.0.0.1", "ada@[127.0.0.1]",
		"ada@[IPv6:::1]", "ada@harbour.example.", "ada@.example", "ada@har..example", "ada@-a.example", "ada@a-.example",
		"ada@har_bour.example", "Ada <ada@harbour.example>", "<ada@harbour.example>", "ada@harbour.example,eve@harbour.example",
		"ada@harbour.example ", " ada@harbour.example", "ada @harbour.example", ".ada@harbour.example", "a..da@harbour.example",
		"ada.@harbour.example", "a@da@harbour.example", "ada@harbour.example\r\nBcc: eve@harbour.example", "ada\x00@harbour.example",
		"ada\n@harbour.example", "ada@harbour.example\n", "ada(comment)@harbour.example", `"ada"@harbour.example`, "adà@harbour.example",
		"ada@häfen.example", "ada\u202e@harbour.example", strings.Repeat("a", 65) + "@harbour.example",
		"a@" + strings.Repeat("d", 64) + ".example", "ab@" + labels + strings.Repeat("e", 63),
	}
	for _, address := range slices.Concat(valid, invalid) {
		if err := mail.CheckAddress(address); (err == nil) != slices.Contains(valid, address) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
