// Package mailer sends mails that wait in a queue: one that fails waits an hour in `mails.later`, and is tried again.
package mailer

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

const hour = int32(3600_000)

// Declare declares both queues.
func Declare(channel *amqp.Channel) error {
	if _, err := channel.QueueDeclare("mails", true, false, false, false, nil); err != nil {
		return err
	}
	_, err := channel.QueueDeclare("mails.later", true, false, false, false, amqp.Table{
		"x-message-ttl":             hour,
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": "mails",
	})
	return err
}

// Put publishes a message and waits until the broker has it on disk; false: the broker says that it has not.
func Put(channel *amqp.Channel, queue, text string) (bool, error) {
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(text)}
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, false, false, message)
	if err != nil {
		return false, err
	}
	return confirmation.Wait(), nil
}

// Work sends mails until the connection is closed. The channel is in confirm mode.
func Work(channel *amqp.Channel, send func(string) error) error {
	if err := channel.Qos(1, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.Consume("mails", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for delivery := range deliveries {
		if send(string(delivery.Body)) != nil {
			if stored, err := Put(channel, "mails.later", string(delivery.Body)); err != nil || !stored {
				return err
			}
		}
		if err := delivery.Ack(false); err != nil {
			return err
		}
	}
	return nil
}
