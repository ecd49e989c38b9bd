// Package leveret runs a RabbitMQ for tests: a Leveret, a real broker on a port of its own, which a test can kill, start
// again, empty, and whose clock it can move.
//
//	func TestAnOrder(t *testing.T) {
//		broker := leveret.Use(t, leveret.Options{})
//		placeOrder(broker.URL)
//		broker.Expect(leveret.Values{"event": "routed", "queue": "orders"})
//	}
//
// It needs the program of Leveret: the directory that `make single` builds, named in LEVERET_PROGRAM, or `leveret` in
// the PATH.
package leveret

import (
	"sync"
	"testing"
	"time"
)

// Options of a broker. The zero value is a RabbitMQ 3.13 on a temporary directory.
type Options struct {
	// Personality is the RabbitMQ that it is to its clients: 3.10, 3.13, 4.2 or 4.3.
	Personality string
	// Settings are lines of a configuration file (TOML).
	Settings string
	// Program is the path of `leveret`, if the environment does not name it.
	Program string
}

// A Broker is a process with ports and data of its own. It ends with the tests, also when they are killed.
type Broker struct {
	Control
	// URL is for clients, `amqp://guest:guest@127.0.0.1:PORT`: the virtual host `/`. URL + "/name" is another one.
	URL string
	// Directory has its data and its log, until Close.
	Directory string
	host      *host
	number    int
	pid       int
}

type facts struct {
	URL           string `json:"url"`
	ManagementURL string `json:"managementUrl"`
	Directory     string `json:"directory"`
	PID           int    `json:"pid"`
}

// Start starts a broker that no other test has. Close ends it.
func Start(options Options) (*Broker, error) {
	host, err := hostOf(options.Program)
	if err != nil {
		return nil, err
	}
	values := map[string]any{"settings": options.Settings}
	if options.Personality != "" {
		values["personality"] = options.Personality
	}
	broker := &Broker{host: host, number: host.next()}
	return broker, broker.asked("new", values)
}

var (
	usedMutex sync.Mutex
	used      = map[Options]*Broker{}
)

// Use returns the broker with these options that the tests of this process share, running and empty. Tests that use it
// do not run in parallel. The broker's log is shown if the test fails.
func Use(t testing.TB, options Options) *Broker {
	t.Helper()
	usedMutex.Lock()
	defer usedMutex.Unlock()
	broker, err := used[options], error(nil)
	if broker == nil {
		broker, err = Start(options)
	} else {
		err = broker.Fresh()
	}
	if err != nil {
		t.Fatal(err)
	}
	used[options] = broker
	before, err := broker.Log()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if log, err := broker.Log(); t.Failed() && err == nil {
			t.Log("the broker's log during the test:\n" + log[len(before):])
		}
	})
	return broker
}

func (b *Broker) asked(request string, values map[string]any) error {
	var known facts
	if err := b.host.ask(request, b.number, values, &known); err != nil {
		return err
	}
	b.URL, b.ManagementURL, b.Directory, b.pid = known.URL, known.ManagementURL, known.Directory, known.PID
	return nil
}

// Start starts it after Stop, Kill or a fault, with the same ports and data.
func (b *Broker) Start() error {
	return b.asked("start", nil)
}

// Fresh starts it if it does not run, and empties it.
func (b *Broker) Fresh() error {
	return b.asked("fresh", nil)
}

// Stop stops it in order (SIGTERM).
func (b *Broker) Stop() error {
	return b.host.ask("stop", b.number, nil, nil)
}

// Kill kills it (SIGKILL). Confirmed messages are there after Start.
func (b *Broker) Kill() error {
	return b.host.ask("kill", b.number, nil, nil)
}

// Restart is Stop, then Start.
func (b *Broker) Restart() error {
	if err := b.Stop(); err != nil {
		return err
	}
	return b.Start()
}

// WaitForEnd waits until a fault has ended the process, and returns its exit code, -9 if it was killed.
func (b *Broker) WaitForEnd(limit time.Duration) (int, error) {
	var code int
	err := b.host.ask("wait_for_end", b.number, map[string]any{"seconds": limit.Seconds()}, &code)
	return code, err
}

// Log returns its log over all starts.
func (b *Broker) Log() (string, error) {
	var log string
	err := b.host.ask("log", b.number, nil, &log)
	return log, err
}

// PID returns the process of the last start.
func (b *Broker) PID() int {
	return b.pid
}

// Close ends it and deletes its files.
func (b *Broker) Close() error {
	return b.host.ask("close", b.number, nil, nil)
}
