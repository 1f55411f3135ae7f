package config

import (
	"log/slog"

	"opsgate/ratelimit"
)

// A choice is a value that is one of a few words.
type choice interface {
	choices() []string
}

// A Store is where budgets are counted.
type Store string

// The stores that exist.
const (
	StoreMemory Store = "memory"
	StoreRedis  Store = "redis"
)

func (Store) choices() []string { return []string{string(StoreMemory), string(StoreRedis)} }

// A StoreFailure is what becomes of requests while the store cannot decide.
type StoreFailure string

// What can be done without the store.
const (
	FailLocal = StoreFailure(ratelimit.ModeLocal) // each gateway limits by itself
	FailAllow = StoreFailure(ratelimit.ModeAllow) // every request is admitted
	FailDeny  = StoreFailure(ratelimit.ModeDeny)  // every request fails
)

func (StoreFailure) choices() []string {
	return []string{string(FailLocal), string(FailAllow), string(FailDeny)}
}

// A RedisMode is what answers at the addresses of a Redis.
type RedisMode string

// The kinds of Redis.
const (
	RedisAuto     RedisMode = "auto" // a single server at one address, a cluster at several
	RedisSingle   RedisMode = "single"
	RedisCluster  RedisMode = "cluster"
	RedisSentinel RedisMode = "sentinel"
)

func (RedisMode) choices() []string {
	return []string{string(RedisAuto), string(RedisSingle), string(RedisCluster), string(RedisSentinel)}
}

// A Level is the importance of a log line.
type Level string

// The levels of log lines.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

func (Level) choices() []string {
	return []string{string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError)}
}

// Slog returns the level as the logger knows it.
func (l Level) Slog() slog.Level {
	switch l {
	case LevelDebug:
		return slog.LevelDebug
	case LevelWarn:
		return slog.LevelWarn
	case LevelError:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// A Format is how log lines look.
type Format string

// The formats of log lines.
const (
	FormatJSON Format = "json"
	FormatText Format = "text"
)

func (Format) choices() []string { return []string{string(FormatJSON), string(FormatText)} }
