// Package orders is the newcomer's application in Go.
package orders

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

func placeOrder(url string) error {
	connection, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	if _, err := channel.QueueDeclare("orders", true, false, false, false, nil); err != nil {
		return err
	}
	order := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("one hare")}
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(context.Background(), "", "orders", false, false, order)
	if err != nil {
		return err
	}
	if !confirmation.Wait() {
		return errors.New("the order is not on disk")
	}
	return nil
}
