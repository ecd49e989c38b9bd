package leveret_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"leveret"
)

func TestABrokerIsKilledAndStartedAgain(t *testing.T) {
	broker := leveret.Use(t, leveret.Options{})
	url, before := broker.URL, broker.PID()
	check(t, broker.Kill())
	if err := broker.Reset(); err == nil || !strings.Contains(err.Error(), "does it run?") {
		t.Error("a dead broker has answered:", err)
	}
	check(t, broker.Start())
	check(t, broker.Restart())
	if broker.URL != url || broker.PID() == before {
		t.Error(broker.URL, broker.PID())
	}
	check(t, broker.Reset())
}

func TestTheClock(t *testing.T) {
	broker := leveret.Use(t, leveret.Options{})
	check(t, broker.StopClock())
	before, err := broker.Time()
	check(t, err)
	check(t, broker.StepClock(time.Hour))
	check(t, broker.SetClock(before.Add(2*time.Hour)))
	after, err := broker.Time()
	check(t, err)
	if passed := after.Sub(before); passed != 2*time.Hour {
		t.Error(passed)
	}
	check(t, broker.StartClock())
}

func TestAFaultEndsTheProcess(t *testing.T) {
	broker := leveret.Use(t, leveret.Options{})
	fault, err := broker.Fault("nack-confirms", leveret.Values{"times": 2})
	check(t, err)
	if fired, err := fault.Fired(); fired != 0 || err != nil {
		t.Error(fired, err)
	}
	check(t, fault.Lift())
	if _, err := fault.Fired(); err == nil {
		t.Error("a lifted fault is there")
	}
	check(t, broker.LiftFaults())
	check(t, broker.Kill())
	if code, err := broker.WaitForEnd(time.Second); code != -9 || err != nil {
		t.Error(code, err)
	}
}

func TestAnExpectationThatIsNotMet(t *testing.T) {
	broker := leveret.Use(t, leveret.Options{})
	_, err := broker.Expect(leveret.Values{"event": "acked", "queue": "orders", "timeout_seconds": 0.1})
	if !errors.Is(err, leveret.ErrNotMet) || !strings.Contains(err.Error(), "expected 1 of these events") {
		t.Error(err)
	}
	events, err := broker.History(leveret.Values{"event": "declared", "limit": 10})
	if len(events) != 0 || err != nil {
		t.Error(events, err)
	}
	check(t, broker.WaitUntilIdle())
}

func TestABrokerOfItsOwnLeavesNothing(t *testing.T) {
	broker, err := leveret.Start(leveret.Options{Personality: "4.3"})
	check(t, err)
	check(t, broker.SaveSnapshot("shop"))
	check(t, broker.RestoreSnapshot("shop"))
	log, err := broker.Log()
	check(t, err)
	if !strings.Contains(log, "as RabbitMQ 4.3") {
		t.Error(log)
	}
	where := strings.TrimPrefix(broker.URL, "amqp://guest:guest@")
	check(t, broker.Close())
	if connection, err := net.Dial("tcp", where); err == nil {
		connection.Close()
		t.Error("it still listens on", where)
	}
	if _, err := os.Stat(broker.Directory); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	_, err := leveret.Start(leveret.Options{Settings: "[server]\nspeed = 3\n"})
	if err == nil || !strings.Contains(err.Error(), "speed") {
		t.Error(err)
	}
	_, err = leveret.Start(leveret.Options{Program: "/no/such/program"})
	if err == nil || !strings.Contains(err.Error(), "LEVERET_PROGRAM") {
		t.Error(err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
