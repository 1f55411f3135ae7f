package membership

import (
	"os"
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
	script, err := os.ReadFile("../redisstore/lua/account.lua")
	if err != nil {
		t.Fatal(err)
	}
	called := regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllStringSubmatch(string(script)+heartbeatLua, -1)
	if len(called) == 0 {
		t.Error("the scripts call no commands")
	}
	for _, match := range called {
		if name := strings.ToLower(match[1]); !known[name] {
			t.Errorf("the check does not try %s", name)
		}
	}
}
