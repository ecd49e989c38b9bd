// Go's amqp091-go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var steps = map[string][]float64{}

func timed(step string, operation func() error) {
	began := time.Now()
	check(operation())
	steps[step] = append(steps[step], float64(time.Since(began).Nanoseconds())/1e6)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func publish(channel *amqp.Channel, confirms <-chan amqp.Confirmation, key string) error {
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: make([]byte, 100)}
	err := channel.PublishWithContext(context.Background(), "amq.direct", key, false, false, message)
	if err == nil {
		<-confirms
	}
	return err
}

func session(uri string, names []string) {
	var connection *amqp.Connection
	var channel *amqp.Channel
	timed("connect", func() (err error) { connection, err = amqp.Dial(uri); return })
	timed("channel", func() (err error) { channel, err = connection.Channel(); return })
	check(channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	for _, name := range names {
		timed("declare", func() error { _, err := channel.QueueDeclare(name, true, false, false, false, nil); return err })
		timed("bind", func() error { return channel.QueueBind(name, name, "amq.direct", false, nil) })
	}
	for range names {
		timed("publish", func() error { return publish(channel, confirms, names[0]) })
	}
	for range names {
		var got amqp.Delivery
		timed("get", func() (err error) { got, _, err = channel.Get(names[0], false); return })
		timed("ack", func() error { return got.Ack(false) })
	}
	for range names {
		check(publish(channel, confirms, names[0]))
	}
	check(channel.Qos(1, 0, false))
	var deliveries <-chan amqp.Delivery
	for number := range names {
		timed("consume", func() (err error) {
			if number == 0 {
				deliveries, err = channel.Consume(names[0], "bench", false, false, false, false, nil)
				check(err)
			}
			delivery := <-deliveries
			return delivery.Ack(false)
		})
	}
	timed("cancel", func() error { return channel.Cancel("bench", false) })
	for _, name := range names {
		timed("delete", func() error { _, err := channel.QueueDelete(name, false, false, false); return err })
	}
	timed("close", connection.Close)
}

func main() {
	sessions, _ := strconv.Atoi(os.Args[2])
	times, _ := strconv.Atoi(os.Args[3])
	names := []string{}
	for number := 0; number < times; number++ {
		names = append(names, fmt.Sprintf("bench.clients.go.%d", number))
	}
	for number := 0; number < sessions; number++ {
		session(os.Args[1], names)
	}
	check(json.NewEncoder(os.Stdout).Encode(steps))
}
