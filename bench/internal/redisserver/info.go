package redisserver

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// CPU returns the processor time of the server's main thread so far, user and system. It
// bounds the decisions of one server per second. Unlike a wall clock it stops while another
// process runs on the core.
func CPU(ctx context.Context, c *redis.Client) (time.Duration, error) {
	text, err := c.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	return mainThread(text)
}

// mainThread reads the answer to INFO cpu.
func mainThread(text string) (time.Duration, error) {
	var sum float64
	for _, name := range []string{"used_cpu_sys_main_thread", "used_cpu_user_main_thread"} {
		v, err := strconv.ParseFloat(Field(text, name), 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu has no %s: measuring needs Redis 6.2 or later", name)
		}
		sum += v
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// Number returns a whole number of INFO, such as used_memory.
func Number(ctx context.Context, c *redis.Client, section, name string) (int64, error) {
	text, err := c.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(Field(text, name), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("INFO %s: %s is %q", section, name, Field(text, name))
	}
	return n, nil
}

// Version returns the server's version.
func Version(ctx context.Context, c *redis.Client) string {
	text, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "unknown"
	}
	for _, name := range []string{"valkey_version", "redis_version"} {
		if v := Field(text, name); v != "" {
			return strings.TrimSuffix(name, "_version") + " " + v
		}
	}
	return "unknown"
}

// Field returns the value of the line "name:value" of an answer to INFO, "" if
// there is none.
func Field(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
