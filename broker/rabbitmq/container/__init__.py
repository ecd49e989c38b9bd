"""The entry point of the image, which takes the place of `rabbitmq:3-management`."""
