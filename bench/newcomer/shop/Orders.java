import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;

/** The newcomer's application in Java. */
final class Orders {
  static void placeOrder(String url) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(url);
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      channel.confirmSelect();
      channel.queueDeclare("orders", true, false, false, null);
      channel.basicPublish("", "orders", MessageProperties.PERSISTENT_BASIC, "one hare".getBytes());
      channel.waitForConfirmsOrDie();
    }
  }
}
