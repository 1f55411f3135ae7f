package config

import "time"

// RateLimit is who may make how many requests, and where they are counted.
type RateLimit struct {
	Store            Store        `yaml:"store" restart:"chosen at start" doc:"Where budgets are counted: in each process, or in Redis."`
	OnStoreFailure   StoreFailure `yaml:"on_store_failure" doc:"While Redis is away: gateways limit by themselves, all pass, or all get 503."`
	ExpectedReplicas Replicas     `yaml:"expected_replicas" doc:"Gateways that share the limits without Redis: auto (counted), or 1 to 10000."`

	Redis Redis `yaml:"redis" restart:"connected at start" doc:"The Redis of store: redis."`

	Limits  []Limit   `yaml:"limits" doc:"Every request must pass all of them; one to four."`
	Classes Classes   `yaml:"classes" doc:"Limits of some teams and tokens instead of the default ones, by the name of the class."`
	Teams   Overrides `yaml:"teams" doc:"Limits of each token of a team instead of those of a class, by the team's id."`
	Tokens  Overrides `yaml:"tokens" doc:"Limits of one token instead of those of its team, by the token's id."`

	Demand Demand `yaml:"demand" restart:"opened at start" doc:"A record of requests, for opsgate replay to try limits on."`
}

// Redis is what gateways share to count together.
type Redis struct {
	Mode             RedisMode `yaml:"mode" doc:"What answers there; auto: a server at one address, a cluster at several."`
	Addresses        []string  `yaml:"addresses" doc:"host:port of the server, of nodes of a cluster, or of sentinels; up to 100."`
	MasterName       string    `yaml:"master_name" doc:"What sentinels call the server; for mode: sentinel alone."`
	Username         string    `yaml:"username" restart:"-" doc:"User of the server; empty for its default user."`
	Password         Secret    `yaml:"password" restart:"-" doc:"As ${NAME} of a variable or ${file:PATH}; empty for none."`
	SentinelUsername string    `yaml:"sentinel_username" doc:"User of the sentinels; for mode: sentinel alone."`
	SentinelPassword Secret    `yaml:"sentinel_password" doc:"As password; for mode: sentinel alone."`
	Database         int       `yaml:"database" min:"0" max:"1000" doc:"Number of the database; a cluster has 0 alone."`
	TLS              ClientTLS `yaml:"tls" doc:"TLS to Redis."`
	KeyPrefix        string    `yaml:"key_prefix" chars:"64" doc:"What keys begin with; visible ASCII without braces."`
	Timeout          Duration  `yaml:"timeout" min:"1ms" max:"5s" doc:"Time for Redis to answer; twice that to connect."`
}

// A Limit admits that many requests of a token in every interval of that length.
type Limit struct {
	Name     string   `yaml:"name" doc:"What clients see; made of the interval by default: second, hour, 10s."`
	Requests int      `yaml:"requests" min:"1" max:"1000000000" doc:"How many requests are admitted."`
	Per      Duration `yaml:"per" min:"1ms" max:"744h" doc:"In every interval of this length, wherever it begins."`
	Shadow   bool     `yaml:"shadow" doc:"Decide and count, but refuse nobody: a limit on trial."`
}

// Classes are classes by their names.
type Classes map[string]Class

// A Class is limits that some teams and tokens have instead of the default ones. A token's class goes before its team's.
type Class struct {
	Limits  []Limit  `yaml:"limits" doc:"Every request must pass all of them; one to four."`
	Teams   []string `yaml:"teams" doc:"Ids of teams; each of their tokens has these limits for itself."`
	Tokens  []string `yaml:"tokens" doc:"Ids of tokens."`
	Owner   string   `yaml:"owner" chars:"200" doc:"Whom to ask."`
	Reason  string   `yaml:"reason" chars:"200" doc:"Why."`
	Expires Time     `yaml:"expires" doc:"When the class ends, as 2026-01-31T12:00:00Z; never by default."`
}

// Overrides are limits by the id of a team or token.
type Overrides map[string]Override

// An Override is limits that one team or token has instead of all others.
type Override struct {
	Limits  []Limit `yaml:"limits" doc:"Every request must pass all of them; one to four."`
	Owner   string  `yaml:"owner" chars:"200" doc:"Whom to ask."`
	Reason  string  `yaml:"reason" chars:"200" doc:"Why."`
	Expires Time    `yaml:"expires" doc:"When the override ends, as 2026-01-31T12:00:00Z; never by default."`
}

// Demand is the record of who made requests and what became of them.
type Demand struct {
	File     string  `yaml:"file" doc:"Where to write it; empty for nowhere."`
	Sample   Percent `yaml:"sample" min:"0.0001%" max:"100%" doc:"Part of the tokens that are recorded, each with all of its requests."`
	MaxBytes Bytes   `yaml:"max_bytes" min:"1MiB" max:"10GiB" doc:"Size of the record; past it the oldest requests go."`
}

func defaultRateLimit() RateLimit {
	return RateLimit{
		Store:            StoreMemory,
		OnStoreFailure:   FailLocal,
		ExpectedReplicas: AutoReplicas,
		Redis: Redis{
			Mode:      RedisAuto,
			Addresses: []string{"127.0.0.1:6379"},
			KeyPrefix: "opsgate:",
			Timeout:   Duration(50 * time.Millisecond),
		},
		Limits: []Limit{
			{Name: "second", Requests: 3, Per: seconds(1)},
			{Name: "hour", Requests: 5000, Per: seconds(3600)},
		},
		Demand: Demand{Sample: percent, MaxBytes: 64 * mebi},
	}
}
