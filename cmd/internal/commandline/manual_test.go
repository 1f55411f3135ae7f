package commandline_test

import (
	"strings"
	"testing"
)

func TestTheManualPageRenders(t *testing.T) {
	page := sample(t, "man")
	cmd := install(t, "groff", "-man", "-Tascii", "-Wall", "-ww", "-P-cbou")
	cmd.Stdin = strings.NewReader(page)
	text := output(t, cmd) // which takes a warning for a failure
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
			t.Errorf("there is no %q", want)
		}
	}
	for _, hidden := range []string{"Nobody is told", "__complete", "--hidden"} {
		if strings.Contains(text, hidden) {
			t.Errorf("it tells of %s", hidden)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
