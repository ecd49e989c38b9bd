package leveret;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;
import java.io.File;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(LeveretExtension.class)
class LeveretExtensionTest {
  private static Connection connect(Leveret leveret) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(leveret.url());
    factory.setAutomaticRecoveryEnabled(false);
    return factory.newConnection();
  }

  private static void put(Channel channel, String queue, String text) throws Exception {
    channel.confirmSelect();
    channel.queueDeclare(queue, true, false, false, Map.of());
    channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, text.getBytes());
    channel.waitForConfirmsOrDie(10_000);
  }

  @Test
  void aConfirmedMessageSurvivesAKill(Leveret leveret) throws Exception {
    put(connect(leveret).createChannel(), "orders", "one");
    int port = leveret.port();
    long pid = leveret.pid();
    leveret.kill();
    assertEquals(-9, leveret.waitForEnd(Duration.ofSeconds(1)));
    assertThrows(LeveretException.class, () -> leveret.history(Map.of()));
    leveret.startAgain();
    assertEquals(port, leveret.port());
    assertTrue(pid != leveret.pid());
    leveret.expect(Map.of("queue", "orders", "ready", 1));
    leveret.restart();
    leveret.expect(Map.of("queue", "orders", "ready", 1));
  }

  @Test
  void eachTestBeginsWithAnEmptyBroker(Leveret leveret) throws Exception {
    assertEquals(List.of(), leveret.history(Map.of("event", "declared")));
    put(connect(leveret).createChannel(), "orders", "one");
    leveret.saveSnapshot("shop");
    leveret.reset();
    leveret.restoreSnapshot("shop");
    leveret.expect(Map.of("queue", "orders", "ready", 1));
  }

  @Test
  void anHourPassesAtOnce(Leveret leveret) throws Exception {
    leveret.stopClock();
    Instant before = leveret.time();
    try (Connection connection = connect(leveret)) {
      Channel channel = connection.createChannel();
      channel.queueDeclare("later", false, false, false, Map.of("x-message-ttl", 3600_000));
      channel.basicPublish("", "later", null, "one".getBytes());
      leveret.expect(Map.of("queue", "later", "ready", 1));
      leveret.stepClock(Duration.ofHours(1));
      List<Map<String, Object>> events = leveret.expect("expired", Map.of("queue", "later"));
      assertEquals("later", events.get(0).get("queue"));
    }
    leveret.setClock(before.plus(Duration.ofHours(2)));
    assertEquals(before.plus(Duration.ofHours(2)), leveret.time());
    leveret.startClock();
    leveret.waitUntilIdle();
  }

  @Test
  void aConfirmThatFails(Leveret leveret) throws Exception {
    try (Connection connection = connect(leveret)) {
      Channel channel = connection.createChannel();
      channel.queueDeclare("orders", true, false, false, Map.of());
      leveret.fault("nack-confirms", Map.of("queue", "orders"));
      assertThrows(java.io.IOException.class, () -> put(channel, "orders", "one"));
      assertEquals(1L, leveret.faults().get(0).get("fired"));
      leveret.liftFaults();
    }
  }

  @Test
  void anExpectationThatIsNotMet(Leveret leveret) {
    Map<String, Object> never = Map.of("queue", "orders", "timeout_seconds", 0.1);
    NotMetError error = assertThrows(NotMetError.class, () -> leveret.expect("acked", never));
    assertTrue(error.getMessage().contains("expected 1 of these events"), error.getMessage());
    assertTrue(error.getStackTrace()[0].getClassName().startsWith("leveret.LeveretExtensionTest"));
  }

  @Test
  void aBrokerOfItsOwnLeavesNothing() {
    Leveret other = Leveret.start("4.3", "[limits]\nconsumer_timeout_seconds = 60\n");
    assertTrue(other.log().contains("as RabbitMQ 4.3"));
    File directory = new File(other.directory());
    assertTrue(directory.exists());
    other.stop();
    other.close();
    assertFalse(directory.exists());
    LeveretException error = assertThrows(LeveretException.class, () -> Leveret.start("", "[server]\nspeed = \"3\"\n"));
    assertTrue(error.getMessage().contains("speed"), error.getMessage());
  }

  @Test
  void textsOfAllKindsAreReadAsTheyWereWritten() {
    Map<String, Object> value = Map.of("a \"text\"\\", "é\n\u0001/", "number", -3L);
    assertEquals(value, Json.read(Json.write(value)));
    assertEquals(List.of(1.5, true, "\"\n\u00e9"), Json.read(" [1.5, true , \"\\\"\\n\\u00e9\"] "));
  }
}
