module mailer

go 1.19

require (
	github.com/rabbitmq/amqp091-go v1.5.0
	leveret v0.1.0
)

replace leveret => ../../clients/go
