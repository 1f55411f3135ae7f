package config

import (
	"log/slog"

	"opsgate/ratelimit"
)

// A choice is a value from a fixed set of words.
type choice interface {
	choices() []string
}

// A Store is where requests are counted.
type Store string

// Values of Store.
const (
	StoreMemory Store = "memory"
	StoreRedis  Store = "redis"
)

func (Store) choices() []string { return []string{string(StoreMemory), string(StoreRedis)} }

// A StoreFailure is how requests are decided while the store is unavailable.
type StoreFailure string

// Values of StoreFailure.
const (
	FailLocal = StoreFailure(ratelimit.ModeLocal) // each gateway applies its share of the limits
	FailAllow = StoreFailure(ratelimit.ModeAllow) // every request is admitted
	FailDeny  = StoreFailure(ratelimit.ModeDeny)  // every request fails
)

func (StoreFailure) choices() []string {
	return []string{string(FailLocal), string(FailAllow), string(FailDeny)}
}

// A RedisMode is the kind of servers at the addresses of a Redis.
type RedisMode string

// Values of RedisMode.
const (
	RedisAuto     RedisMode = "auto" // a single server at one address, a cluster at several
	RedisSingle   RedisMode = "single"
	RedisCluster  RedisMode = "cluster"
	RedisSentinel RedisMode = "sentinel"
)

func (RedisMode) choices() []string {
	return []string{string(RedisAuto), string(RedisSingle), string(RedisCluster), string(RedisSentinel)}
}

// A Level is the lowest level of lines that are logged.
type Level string

// Values of Level.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

func (Level) choices() []string {
	return []string{string(LevelDebug), string(LevelInfo), string(LevelWarn), string(LevelError)}
}

// Slog returns the level for slog.
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

// A Format is the format of log lines.
type Format string

// Values of Format.
const (
	FormatJSON Format = "json"
	FormatText Format = "text"
)

func (Format) choices() []string { return []string{string(FormatJSON), string(FormatText)} }
