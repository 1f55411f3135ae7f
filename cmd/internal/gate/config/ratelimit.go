package config

import "time"

// RateLimit is the limits of tokens and where requests are counted.
type RateLimit struct {
	Store            Store        `yaml:"store" restart:"chosen at start" doc:"Where requests are counted: in each process, or in Redis."`
	OnStoreFailure   StoreFailure `yaml:"on_store_failure" doc:"While Redis is unavailable: apply a share, admit all, or answer 503."`
	ExpectedReplicas Number       `yaml:"expected_replicas" min:"1" max:"10000" doc:"Gateways that share the limits in an outage, or auto."`

	Redis Redis `yaml:"redis" restart:"connected at start" doc:"The Redis for store: redis."`

	Limits  []Limit   `yaml:"limits" doc:"One to four; every request must pass all."`
	Classes Classes   `yaml:"classes" doc:"Limits of some teams and tokens instead of the default, by class name."`
	Teams   Overrides `yaml:"teams" doc:"Limits of each token of a team instead of those of a class, by team id."`
	Tokens  Overrides `yaml:"tokens" doc:"Limits of one token instead of those of its team, by token id."`

	Demand Demand `yaml:"demand" restart:"opened at start" doc:"A record of requests for opsgate replay."`
}

// Redis is the connection to the Redis that gateways share.
type Redis struct {
	Mode             RedisMode `yaml:"mode" doc:"Kind of servers; auto: a server at one address, a cluster at several."`
	Addresses        []string  `yaml:"addresses" doc:"host:port of the server, of cluster nodes, or of sentinels; up to 100."`
	MasterName       string    `yaml:"master_name" doc:"Name of the server at the sentinels; only for mode: sentinel."`
	Username         string    `yaml:"username" restart:"-" doc:"User of the server; empty for the default user."`
	Password         Secret    `yaml:"password" restart:"-" doc:"As ${NAME} of a variable or ${file:PATH}; empty for none."`
	SentinelUsername string    `yaml:"sentinel_username" doc:"User of the sentinels; only for mode: sentinel."`
	SentinelPassword Secret    `yaml:"sentinel_password" doc:"As password; only for mode: sentinel."`
	Database         int       `yaml:"database" min:"0" max:"1000" doc:"Number of the database; 0 for a cluster."`
	TLS              ClientTLS `yaml:"tls" doc:"TLS to Redis."`
	KeyPrefix        string    `yaml:"key_prefix" chars:"64" doc:"Prefix of keys; visible ASCII without braces."`
	Timeout          Duration  `yaml:"timeout" min:"1ms" max:"5s" doc:"Time for Redis to respond; twice that to connect."`
}

// A Limit is the maximum number of requests of a token in any interval of a length.
type Limit struct {
	Name     string   `yaml:"name" doc:"Name that clients see; by default from the interval: second, hour, 10s."`
	Requests int      `yaml:"requests" min:"1" max:"1000000000" doc:"Maximum number of requests."`
	Per      Duration `yaml:"per" min:"1ms" max:"744h" doc:"In any interval of this length."`
	Shadow   bool     `yaml:"shadow" doc:"Count but do not deny, to try a limit."`
}

// Classes are classes by their names.
type Classes map[string]Class

// A Class is the limits of some teams and tokens instead of the default. The class of a token precedes that of its team.
type Class struct {
	Limits  []Limit  `yaml:"limits" doc:"One to four; every request must pass all."`
	Teams   []string `yaml:"teams" doc:"Ids of teams; the limits apply to each of their tokens separately."`
	Tokens  []string `yaml:"tokens" doc:"Ids of tokens."`
	Owner   string   `yaml:"owner" chars:"200" doc:"Contact."`
	Reason  string   `yaml:"reason" chars:"200" doc:"Reason."`
	Expires Time     `yaml:"expires" doc:"When the class ends, as 2026-01-31T12:00:00Z; never by default."`
}

// Overrides are limits by the id of a team or token.
type Overrides map[string]Override

// An Override is the limits of one team or token instead of all others.
type Override struct {
	Limits  []Limit `yaml:"limits" doc:"One to four; every request must pass all."`
	Owner   string  `yaml:"owner" chars:"200" doc:"Contact."`
	Reason  string  `yaml:"reason" chars:"200" doc:"Reason."`
	Expires Time    `yaml:"expires" doc:"When the override ends, as 2026-01-31T12:00:00Z; never by default."`
}

// Demand is the record of requests and decisions.
type Demand struct {
	File     string  `yaml:"file" doc:"Path of the record; empty for none."`
	Sample   Percent `yaml:"sample" min:"0.0001%" max:"100%" doc:"Fraction of tokens that are recorded, each with all of its requests."`
	MaxBytes Bytes   `yaml:"max_bytes" min:"1MiB" max:"10GiB" doc:"Size of the record; past it the oldest requests are removed."`
}

func defaultRateLimit() RateLimit {
	return RateLimit{
		Store:            StoreMemory,
		OnStoreFailure:   FailLocal,
		ExpectedReplicas: Auto,
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
