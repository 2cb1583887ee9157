package httpapi

// answers holds an example of the type of each answer; nil = no JSON.
var answers = map[string]any{
	"/v1/check":         decision{},
	"/v1/checks":        nil, // decisions and problems, see batchSchema
	"/v1/peek":          decision{},
	"/v1/count":         count{},
	"/v1/record":        decision{},
	"/v1/refund":        refund{},
	"/v1/reserve":       reservation{},
	"/v1/settle":        settlement{},
	"/v1/release":       settlement{},
	"/v1/extend":        extension{},
	"/v1/keys/{policy}": nil,
	"/gate/{policy}":    nil,
	"/v1/reload":        reloaded{},
	"/v1/policies":      PolicyList{},
	"/v1/top":           TopList{},
	"/openapi.json":     map[string]any{},
	"/livez":            liveness{},
	"/readyz":           Readiness{},
	"/metrics":          nil,
}

// decision describes the JSON that answer.Answer writes, for the OpenAPI document. Waits
// are rounded up, so that obeying them is never too early.
type decision struct {
	Allowed      bool      `json:"allowed" jsonschema:"whether the attempt was granted, in full or in part"`
	Policy       string    `json:"policy"`
	Granted      int64     `json:"granted" jsonschema:"units that were granted"`
	Remaining    int64     `json:"remaining" jsonschema:"units that fit now; below 0 if records or denied attempts exceed a limit"`
	RetryAfterMS int64     `json:"retry_after_ms" jsonschema:"milliseconds until the same attempt is granted in full; -1 = never"`
	RetryAfterUS int64     `json:"retry_after_us" jsonschema:"the same in microseconds, exact"`
	ResetAfterMS int64     `json:"reset_after_ms" jsonschema:"milliseconds until nothing of the key counts"`
	At           string    `json:"at" jsonschema:"the instant of the decision by the clock of the store, RFC 3339 with microseconds"`
	Limit        string    `json:"limit" jsonschema:"the limit that denied or cut the attempt; empty if none did"`
	Degraded     bool      `json:"degraded,omitempty" jsonschema:"decided without the store"`
	Replayed     bool      `json:"replayed,omitempty" jsonschema:"the answer to an earlier request with the same id; nothing was charged again"`
	Cached       bool      `json:"cached,omitempty" jsonschema:"a denial that was repeated from memory; only without the states of limits"`
	Plan         string    `json:"plan,omitempty" jsonschema:"the plan whose numbers applied"`
	Override     *override `json:"override,omitempty" jsonschema:"the override whose numbers applied"`
	BlockedUntil string    `json:"blocked_until,omitempty" jsonschema:"the end of a block of the key, RFC 3339 with microseconds"`
	Warning      bool      `json:"warning,omitempty" jsonschema:"true on a grant that brought the use of a limit to its share for a warning or above"`
	WarnLimits   []string  `json:"warning_limits,omitempty" jsonschema:"with warning: the names of the limits"`
	Shadow       bool      `json:"shadow,omitempty" jsonschema:"the policy is not enforced"`
	Would        *would    `json:"would,omitempty" jsonschema:"the decision of a shadow policy"`
	Why          string    `json:"why" jsonschema:"the reason in one sentence, for people"`
	Limits       []state   `json:"limits" jsonschema:"the limits after the decision; empty if they are unknown"`
}

type override struct {
	Why   string `json:"why"`
	Until string `json:"until,omitempty" jsonschema:"RFC 3339; missing if it stays"`
}

type would struct {
	Allowed      bool   `json:"allowed"`
	Granted      int64  `json:"granted"`
	RetryAfterUS int64  `json:"retry_after_us" jsonschema:"-1 = never"`
	Limit        string `json:"limit"`
}

// state is a limit after a decision.
type state struct {
	Name         string            `json:"name"`
	Key          map[string]string `json:"key" jsonschema:"the dimensions that the limit counts by"`
	Max          int64             `json:"max" jsonschema:"units per window; of a concurrency limit, units in use"`
	Used         int64             `json:"used" jsonschema:"units that count now; of a bucket, units that are missing; of a concurrency limit, units that are held"`
	Remaining    int64             `json:"remaining" jsonschema:"max less used; of a bucket, burst less used"`
	WindowMS     int64             `json:"window_ms" jsonschema:"the length of the window, milliseconds, rounded up; of a period its length without changes of the clock, of a month 31 days"`
	MinInterval  int64             `json:"min_interval_ms,omitempty" jsonschema:"the least time between two grants, milliseconds, rounded up"`
	Kind         string            `json:"kind" jsonschema:"rolling, fixed, fixed_from_first, bucket or concurrency"`
	Burst        int64             `json:"burst,omitempty" jsonschema:"of a bucket: its capacity in units"`
	MaxHold      int64             `json:"max_hold_ms,omitempty" jsonschema:"of a concurrency limit: the longest time for which a unit is held, milliseconds, rounded up"`
	Period       string            `json:"period,omitempty" jsonschema:"of a fixed window of the wall clock: hour, day, week or month"`
	Zone         string            `json:"zone,omitempty" jsonschema:"with period: the time zone of the clock"`
	Anchor       int               `json:"anchor,omitempty" jsonschema:"with period: the first day of a month or of a week, 1 = Monday; missing = 1"`
	RetryAfterMS int64             `json:"retry_after_ms" jsonschema:"milliseconds until this limit admits the same attempt; -1 = never"`
	NextMS       int64             `json:"next_ms" jsonschema:"milliseconds until the next units leave the window or flow into the bucket, or until the next hold ends at the latest; 0 if nothing is used"`
	ResetAfterMS int64             `json:"reset_after_ms" jsonschema:"milliseconds until the window is empty or the bucket full"`
}

// reservation is the answer to POST /v1/reserve.
type reservation struct {
	decision
	Reservation string `json:"reservation,omitempty" jsonschema:"the token for /v1/settle; only after a grant"`
	ExpiresAt   string `json:"expires_at,omitempty" jsonschema:"from then on it cannot be settled, RFC 3339 with microseconds"`
	HeldUntil   string `json:"held_until,omitempty" jsonschema:"with a concurrency limit: the hold ends then unless it is settled or extended before"`
}
