package commandline_test

import (
	"strings"
	"testing"
)

func TestManualPageRendersWithoutWarnings(t *testing.T) {
	page := sample(t, "man")
	cmd := install(t, "groff", "-man", "-Tascii", "-Wall", "-ww", "-P-cbou")
	cmd.Stdin = strings.NewReader(page)
	text := output(t, cmd) // fails on warnings
	for _, want := range []string{
		"SAMPLE(1)", "sample 1.2.3", "2026-01-31",
		"sample - A sample of a program\n",
		"   serve\n       Serve: until the end.\n",
		"--data=DIR\n              Keep it here. Also $SAMPLE_DATA.\n",
		"   token create <kind>\n       Create a token.\n\n       <kind> .live is for \\people\\; 'test' is not.\n",
		"--name=STRING\n              Its name. Required.\n",
		"-h, --help\n", "--verbose\n              Say more.\n",
		"NOTES\n       .so what? C:\\x\n\n       --none 'tis nothing.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, hidden := range []string{"Hidden from users", "__complete", "--hidden"} {
		if strings.Contains(text, hidden) {
			t.Errorf("the page has %s", hidden)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
