package mail_test

import (
	"strings"
	"testing"

	"opsgate/cmd/internal/backend/mail"
)

func TestCheckAddress_Valid(t *testing.T) {
	for _, address := range []string{
		"ada@harbour.example",
		"ada.lovelace+status@mail.harbour.example",
		"o'neil@harbour.example",
		"!#$%&'*+-/=?^_`{|}~@harbour.example",
		`"ada lovelace"@harbour.example`,
		`"a@b> SIZE=1"@harbour.example`,
		`"quote\"and\\backslash"@harbour.example`,
		`".."@harbour.example`,
		"ada@xn--hfen-5qa.example",
		"ada@3com.example",
		strings.Repeat("a", 64) + "@harbour.example",
		"a@" + strings.Repeat(strings.Repeat("d", 62)+".", 3) + strings.Repeat("e", 63),
	} {
		if err := mail.CheckAddress(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestCheckAddress_Invalid(t *testing.T) {
	for _, address := range []string{
		"", "@", "a@", "@harbour.example", "harbour.example", "ada@localhost", "ada@harbour", "ada@127.0.0.1", "ada@[127.0.0.1]",
		"ada@[IPv6:::1]", "ada@harbour.example.", "ada@.example", "ada@har..example", "ada@-a.example", "ada@a-.example",
		"ada@har_bour.example", "Ada <ada@harbour.example>", "<ada@harbour.example>", "ada@harbour.example,eve@harbour.example",
		"ada@harbour.example ", " ada@harbour.example", "ada @harbour.example", ".ada@harbour.example", "a..da@harbour.example",
		"ada.@harbour.example", "a@da@harbour.example", "ada@harbour.example\r\nBcc: eve@harbour.example", "ada\x00@harbour.example",
		"ada\n@harbour.example", "ada(comment)@harbour.example", `"ada@harbour.example`, `""@harbour.example`, `"a"b"@harbour.example`,
		`"a\"@harbour.example`, `"a\b"@harbour.example`, "\"a\r\n b\"@harbour.example", "\"a\tb\"@harbour.example",
		"adà@harbour.example", "ada@häfen.example", "ada\u202e@harbour.example",
		strings.Repeat("a", 65) + "@harbour.example",
		"a@" + strings.Repeat("d", 64) + ".example",
		"ab@" + strings.Repeat(strings.Repeat("d", 62)+".", 3) + strings.Repeat("e", 63),
	} {
		err := mail.CheckAddress(address)
		if err == nil {
			t.Errorf("%q is accepted", address)
			continue
		}
		if address != "" && address != "@" && strings.Contains(err.Error(), address) {
			t.Errorf("the error contains the address: %v", err)
		}
	}
}
