package redisstore

import (
	"regexp"
	"strings"
	"testing"
)

func TestCheckKnowsTheCommandsOfTheScripts(t *testing.T) {
	known := make(map[string]bool)
	for _, command := range scriptCommands("key") {
		name, _ := command[0].(string)
		known[name] = true
	}
	called := regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllStringSubmatch(script+heartbeatLua, -1)
	if len(called) == 0 {
		t.Error("the scripts call no commands")
	}
	for _, match := range called {
		if name := strings.ToLower(match[1]); !known[name] {
			t.Errorf("the check does not try %s", name)
		}
	}
}
