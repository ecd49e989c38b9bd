package mailer

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"leveret"
)

func connected(t *testing.T, broker *leveret.Broker) *amqp.Channel {
	t.Helper()
	connection, err := amqp.Dial(broker.URL)
	check(t, err)
	t.Cleanup(func() { connection.Close() })
	channel, err := connection.Channel()
	check(t, err)
	check(t, channel.Confirm(false))
	check(t, Declare(channel))
	return channel
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, broker *leveret.Broker, which leveret.Values) {
	t.Helper()
	_, err := broker.Expect(which)
	check(t, err)
}

func TestAMailThatFailsIsTriedAgainAnHourLater(t *testing.T) {
	broker := leveret.Use(t, leveret.Options{})
	attempts := make(chan string, 2)
	go Work(connected(t, broker), func(mail string) error {
		attempts <- mail
		if len(attempts) == 1 {
			return errors.New("the server is busy")
		}
		return nil
	})
	check(t, broker.StopClock())
	_, err := Put(connected(t, broker), "mails", "hello")
	check(t, err)
	check(t, broker.WaitUntilIdle())
	expect(t, broker, leveret.Values{"queue": "mails.later", "ready": 1})
	check(t, broker.StepClock(time.Hour))
	expect(t, broker, leveret.Values{"event": "acked", "queue": "mails", "count": 2})
	if len(attempts) != 2 {
		t.Error(len(attempts))
	}
}

func TestAMailThatIsNotConfirmedIsNotStored(t *testing.T) {
	broker := leveret.Use(t, leveret.Options{})
	channel := connected(t, broker)
	_, err := broker.Fault("nack-confirms", leveret.Values{"queue": "mails"})
	check(t, err)
	stored, err := Put(channel, "mails", "hello")
	if stored || err != nil {
		t.Error(stored, err)
	}
}

func TestAConfirmedMailSurvivesAKill(t *testing.T) {
	broker := leveret.Use(t, leveret.Options{})
	stored, err := Put(connected(t, broker), "mails", "hello")
	if !stored || err != nil {
		t.Fatal(stored, err)
	}
	check(t, broker.Kill())
	check(t, broker.Start())
	expect(t, broker, leveret.Values{"queue": "mails", "ready": 1})
}
