// The Java client.

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.MessageProperties;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;

public class JavaSteps {
    static final Map<String, List<Double>> steps = new TreeMap<>();

    static <T> T timed(String step, Callable<T> operation) throws Exception {
        long began = System.nanoTime();
        T result = operation.call();
        steps.computeIfAbsent(step, name -> new ArrayList<>()).add((System.nanoTime() - began) / 1e6);
        return result;
    }

    static Void publish(Channel channel, String key) throws Exception {
        channel.basicPublish("amq.direct", key, MessageProperties.PERSISTENT_BASIC, new byte[100]);
        channel.waitForConfirms();
        return null;
    }

    static Void ack(Channel channel, long tag) throws Exception {
        channel.basicAck(tag, false);
        return null;
    }

    static void session(String uri, List<String> names) throws Exception {
        String first = names.get(0);
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(uri);
        Connection connection = timed("connect", factory::newConnection);
        Channel channel = timed("channel", connection::createChannel);
        channel.confirmSelect();
        for (String name : names) {
            timed("declare", () -> channel.queueDeclare(name, true, false, false, null));
            timed("bind", () -> channel.queueBind(name, "amq.direct", name));
        }
        for (String name : names) timed("publish", () -> publish(channel, first));
        for (String name : names) {
            long tag = timed("get", () -> channel.basicGet(first, false)).getEnvelope().getDeliveryTag();
            timed("ack", () -> ack(channel, tag));
        }
        for (String name : names) publish(channel, first);
        channel.basicQos(1);
        BlockingQueue<Long> arrived = new LinkedBlockingQueue<>();
        DefaultConsumer consumer = new DefaultConsumer(channel) {
            @Override
            public void handleDelivery(String tag, Envelope envelope, BasicProperties properties, byte[] body) {
                arrived.add(envelope.getDeliveryTag());
            }
        };
        for (int number = 0; number < names.size(); number++) {
            boolean begins = number == 0;
            timed("consume", () -> {
                if (begins) channel.basicConsume(first, false, consumer);
                return ack(channel, arrived.take());
            });
        }
        timed("cancel", () -> {
            channel.basicCancel(consumer.getConsumerTag());
            return null;
        });
        for (String name : names) timed("delete", () -> channel.queueDelete(name));
        timed("close", () -> {
            connection.close();
            return null;
        });
    }

    public static void main(String[] arguments) throws Exception {
        List<String> names = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(arguments[2]); number++) names.add("bench.clients.java." + number);
        for (int number = 0; number < Integer.parseInt(arguments[1]); number++) session(arguments[0], names);
        System.out.println(steps.toString().replaceAll("(\\w+)=", "\"$1\": "));
    }
}
