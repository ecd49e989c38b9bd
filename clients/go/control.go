package leveret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	answerTime = 30 * time.Second
	waitTime   = 5 * time.Second
)

// ErrNotMet is wrapped by the error of an expectation that was not met in time; its text says what was seen instead.
var ErrNotMet = errors.New("not met")

// Values are arguments of a request by their names in docs/testing-with-leveret.md, such as routing_key.
type Values map[string]any

// An Event has the fields that the broker gives it: "id", "event", "at" and so on.
type Event map[string]any

// Control sends requests of tests to a broker with `[testing] enabled = true`, by HTTP.
type Control struct {
	// ManagementURL has name and password of an administrator: http://guest:guest@127.0.0.1:15672
	ManagementURL string
}

// Each request has a connection of its own: one that is kept does not survive a killed broker.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Order sends any request, Order("POST", "clock/step", Values{"seconds": 60}, nil), and stores its answer in result
// unless that is nil.
func (c *Control) Order(method, path string, values Values, result any) error {
	return c.order(method, path, values, result, answerTime)
}

func (c *Control) order(method, path string, values Values, result any, limit time.Duration) error {
	request, err := c.request(method, path, values)
	if err != nil {
		return err
	}
	limited := *client
	limited.Timeout = limit
	reply, err := limited.Do(request)
	if err != nil {
		return fmt.Errorf("leveret: no answer of a broker: %w: does it run?", err)
	}
	defer reply.Body.Close()
	content, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode >= 400 {
		return refusal(method, path, reply.StatusCode, content)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(content, result)
}

func (c *Control) request(method, path string, values Values) (*http.Request, error) {
	place := strings.TrimSuffix(c.ManagementURL+"/api/testing/"+path, "/")
	var body io.Reader
	if method == http.MethodGet && len(values) > 0 {
		query := url.Values{}
		for name, value := range values {
			query.Set(name, fmt.Sprint(value))
		}
		place += "?" + query.Encode()
	} else if len(values) > 0 {
		content, err := json.Marshal(values)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(content)
	}
	return http.NewRequest(method, place, body)
}

func refusal(method, path string, status int, content []byte) error {
	var said struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(content, &said) != nil {
		said.Reason = string(content)
	}
	if status == http.StatusConflict {
		return fmt.Errorf("leveret: %w: %s", ErrNotMet, said.Reason)
	}
	return fmt.Errorf("leveret: %s %s: %d: %s", method, path, status, said.Reason)
}

// Reset closes connections, and deletes definitions, messages, faults and history.
func (c *Control) Reset() error {
	return c.Order("POST", "reset", nil, nil)
}

// Expect waits for events, Expect(Values{"event": "acked", "queue": "orders", "count": 3}), and returns them; or for a
// state of a queue, Expect(Values{"queue": "orders", "ready": 0}). It waits for "timeout_seconds", 5 unless said.
func (c *Control) Expect(which Values) ([]Event, error) {
	var found struct {
		Events []Event `json:"events"`
	}
	err := c.order("POST", "expect", which, &found, answerTime+waiting(which))
	return found.Events, err
}

// WaitUntilIdle waits until broker and clients have nothing left to do.
func (c *Control) WaitUntilIdle() error {
	return c.order("POST", "idle", nil, nil, answerTime+waitTime)
}

func waiting(which Values) time.Duration {
	seconds, err := strconv.ParseFloat(fmt.Sprint(which["timeout_seconds"]), 64)
	if err != nil {
		return waitTime
	}
	return time.Duration(seconds * float64(time.Second))
}

// History returns events since the reset, oldest first: History(Values{"event": "acked", "queue": "orders"}); 1,000
// unless "limit" says another number.
func (c *Control) History(which Values) ([]Event, error) {
	var found struct {
		Events []Event `json:"events"`
	}
	err := c.Order("GET", "history", which, &found)
	return found.Events, err
}

// Time returns the broker's time.
func (c *Control) Time() (time.Time, error) {
	var shown struct {
		Milliseconds int64 `json:"milliseconds"`
	}
	err := c.Order("GET", "clock", nil, &shown)
	return time.UnixMilli(shown.Milliseconds), err
}

// StopClock stops the broker's clock.
func (c *Control) StopClock() error {
	return c.Order("POST", "clock/stop", nil, nil)
}

// StartClock starts it again from the time that it shows.
func (c *Control) StartClock() error {
	return c.Order("POST", "clock/start", nil, nil)
}

// StepClock advances it, and does all work due by then.
func (c *Control) StepClock(step time.Duration) error {
	return c.Order("POST", "clock/step", Values{"seconds": step.Seconds()}, nil)
}

// SetClock sets it.
func (c *Control) SetClock(to time.Time) error {
	return c.Order("POST", "clock/set", Values{"to": to.UTC().Format("2006-01-02T15:04:05.000Z")}, nil)
}

// A Fault is a requested fault.
type Fault struct {
	control *Control
	id      int
}

// Fault requests a fault: Fault("nack-confirms", Values{"queue": "orders", "times": 2}).
func (c *Control) Fault(name string, how Values) (*Fault, error) {
	values := Values{"fault": name}
	for argument, value := range how {
		values[argument] = value
	}
	var row faultRow
	err := c.Order("POST", "faults", values, &row)
	return &Fault{c, row.ID}, err
}

type faultRow struct {
	ID    int `json:"id"`
	Fired int `json:"fired"`
}

// Fired returns the number of times that it has happened.
func (f *Fault) Fired() (int, error) {
	var rows []faultRow
	if err := f.control.Order("GET", "faults", nil, &rows); err != nil {
		return 0, err
	}
	for _, row := range rows {
		if row.ID == f.id {
			return row.Fired, nil
		}
	}
	return 0, fmt.Errorf("leveret: fault %d is lifted", f.id)
}

// Lift lifts it.
func (f *Fault) Lift() error {
	return f.control.Order("DELETE", fmt.Sprintf("faults/%d", f.id), nil, nil)
}

// LiftFaults lifts all faults.
func (c *Control) LiftFaults() error {
	return c.Order("DELETE", "faults", nil, nil)
}

// SaveSnapshot saves definitions and persistent messages.
func (c *Control) SaveSnapshot(name string) error {
	return c.Order("PUT", "snapshots/"+url.PathEscape(name), nil, nil)
}

// RestoreSnapshot restores them: connections are closed, all else is deleted.
func (c *Control) RestoreSnapshot(name string) error {
	return c.Order("POST", "snapshots/"+url.PathEscape(name)+"/restore", nil, nil)
}
