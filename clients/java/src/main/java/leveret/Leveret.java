package leveret;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/**
 * A RabbitMQ for tests: a process with ports and data of its own, which ends with the tests. It needs the program of
 * Leveret: the directory that {@code make single} builds, named in LEVERET_PROGRAM, or {@code leveret} in the PATH.
 */
public final class Leveret extends Control implements AutoCloseable {
  private final Host host;
  private final int number;
  private Map<?, ?> facts;

  private Leveret(Host host, Map<String, Object> settings) {
    this.host = host;
    number = host.next();
    begin("new", settings);
  }

  /** Starts a RabbitMQ 3.13. */
  public static Leveret start() {
    return start(null, "");
  }

  /** Starts a RabbitMQ 3.10, 3.13, 4.2 or 4.3, with further settings as lines of a configuration file (TOML). */
  public static Leveret start(String personality, String settings) {
    Map<String, Object> values = new HashMap<>(Map.of("settings", settings));
    if (personality != null && !personality.isEmpty()) values.put("personality", personality);
    return new Leveret(Host.of(null), values);
  }

  private void begin(String request, Map<String, Object> values) {
    facts = (Map<?, ?>) host.ask(request, number, values);
    manage((String) facts.get("managementUrl"));
  }

  /** {@code amqp://guest:guest@127.0.0.1:PORT}: the virtual host {@code /}. */
  public String url() {
    return (String) facts.get("url");
  }

  /** The host on which it listens. */
  public String host() {
    return (String) facts.get("host");
  }

  /** The port for AMQP. */
  public int port() {
    return ((Long) facts.get("port")).intValue();
  }

  /** The process of the last start. */
  public long pid() {
    return (Long) facts.get("pid");
  }

  /** Its data and its log are there, until it is closed. */
  public String directory() {
    return (String) facts.get("directory");
  }

  /** Starts it after {@code stop}, {@code kill} or a fault, with the same ports and data. */
  public void startAgain() {
    begin("start", Map.of());
  }

  /** Starts it if it does not run, and empties it. */
  public void fresh() {
    begin("fresh", Map.of());
  }

  /** Stops it in order (SIGTERM). */
  public void stop() {
    host.ask("stop", number, Map.of());
  }

  /** Kills it (SIGKILL). Confirmed messages are there after {@code startAgain}. */
  public void kill() {
    host.ask("kill", number, Map.of());
  }

  /** Stops and starts it. */
  public void restart() {
    stop();
    startAgain();
  }

  /** Waits until a fault has ended the process; the exit code, -9 if it was killed. */
  public int waitForEnd(Duration limit) {
    Object code = host.ask("wait_for_end", number, Map.of("seconds", limit.toMillis() / 1000.0));
    return ((Long) code).intValue();
  }

  /** Returns its log over all starts. */
  public String log() {
    return (String) host.ask("log", number, Map.of());
  }

  /** Ends it and deletes its files. */
  @Override
  public void close() {
    host.ask("close", number, Map.of());
  }
}
