package leveret;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Sends requests of tests to a broker with {@code [testing] enabled = true}, by HTTP. Arguments have their names of
 * docs/testing-with-leveret.md, such as {@code routing_key}.
 */
public class Control {
  private static final Duration ANSWER = Duration.ofSeconds(30);
  private static final double WAIT_SECONDS = 5;

  private URI management;

  Control() {}

  /** {@code managementUrl} has name and password of an administrator: http://guest:guest@127.0.0.1:15672 */
  public Control(String managementUrl) {
    manage(managementUrl);
  }

  final void manage(String managementUrl) {
    management = URI.create(managementUrl);
  }

  /** The URL of its HTTP API, with name and password. */
  public String managementUrl() {
    return management.toString();
  }

  /** Sends any request, {@code order("POST", "clock/step", Map.of("seconds", 60))}, and returns its answer: a Map or a List. */
  public Object order(String method, String path, Map<String, ?> values) {
    return order(method, path, values, ANSWER);
  }

  private Object order(String method, String path, Map<String, ?> values, Duration limit) {
    boolean asked = method.equals("GET") && !values.isEmpty();
    String place = ("/api/testing/" + path).replaceAll("/$", "") + (asked ? "?" + query(values) : "");
    String body = asked || values.isEmpty() ? "" : Json.write(values);
    Map.Entry<Integer, String> reply = send(method, place, body, limit);
    Object answer = reply.getValue().isEmpty() ? null : Json.read(reply.getValue());
    if (reply.getKey() < 400) return answer;
    String reason = answer instanceof Map ? String.valueOf(((Map<?, ?>) answer).get("reason")) : reply.getValue();
    if (reply.getKey() == 409) throw new NotMetError(reason);
    throw new LeveretException(method + " " + place + ": " + reply.getKey() + ": " + reason);
  }

  /** Returns status and content. Each request has a connection of its own: one that is kept does not survive a kill. */
  private Map.Entry<Integer, String> send(String method, String place, String body, Duration limit) {
    String login = Base64.getEncoder().encodeToString(management.getUserInfo().getBytes(StandardCharsets.UTF_8));
    String where = "http://" + management.getHost() + ":" + management.getPort();
    try {
      HttpURLConnection request = (HttpURLConnection) URI.create(where + place).toURL().openConnection();
      request.setRequestMethod(method);
      request.setRequestProperty("Authorization", "Basic " + login);
      request.setRequestProperty("Accept", "application/json");
      request.setRequestProperty("Connection", "close");
      request.setReadTimeout((int) limit.toMillis());
      if (!body.isEmpty()) {
        request.setDoOutput(true);
        request.getOutputStream().write(body.getBytes(StandardCharsets.UTF_8));
      }
      int status = request.getResponseCode();
      InputStream content = status < 400 ? request.getInputStream() : request.getErrorStream();
      String text = content == null ? "" : new String(content.readAllBytes(), StandardCharsets.UTF_8);
      return Map.entry(status, text);
    } catch (IOException error) {
      throw new LeveretException("no answer of a broker at " + where + ": does it run?", error);
    }
  }

  private static String query(Map<String, ?> values) {
    return values.entrySet().stream()
        .map(each -> each.getKey() + "=" + encoded(String.valueOf(each.getValue())))
        .collect(Collectors.joining("&"));
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
  }

  /** Closes connections, and deletes definitions, messages, faults and history. */
  public void reset() {
    order("POST", "reset", Map.of());
  }

  /** Waits for events, {@code expect("acked", Map.of("queue", "orders", "count", 3))}, and returns them. */
  public List<Map<String, Object>> expect(String event, Map<String, ?> which) {
    Map<String, Object> values = new HashMap<>(which);
    values.put("event", event);
    return events(expected(values));
  }

  /** Waits for a state of a queue: {@code expect(Map.of("queue", "orders", "ready", 0))}. */
  public void expect(Map<String, ?> which) {
    expected(which);
  }

  private Object expected(Map<String, ?> which) {
    Object seconds = which.get("timeout_seconds");
    double limit = seconds == null ? WAIT_SECONDS : ((Number) seconds).doubleValue();
    return order("POST", "expect", which, ANSWER.plusMillis((long) (limit * 1000)));
  }

  /** Waits until broker and clients have nothing left to do. */
  public void waitUntilIdle() {
    order("POST", "idle", Map.of());
  }

  /** Returns events since the reset, oldest first: {@code history(Map.of("event", "acked"))}; 1,000 unless {@code limit}. */
  public List<Map<String, Object>> history(Map<String, ?> which) {
    return events(order("GET", "history", which));
  }

  @SuppressWarnings("unchecked")
  private static List<Map<String, Object>> events(Object answer) {
    return (List<Map<String, Object>>) ((Map<?, ?>) answer).get("events");
  }

  /** Returns the broker's time. */
  public Instant time() {
    return Instant.ofEpochMilli((Long) ((Map<?, ?>) order("GET", "clock", Map.of())).get("milliseconds"));
  }

  /** Stops the broker's clock. */
  public void stopClock() {
    order("POST", "clock/stop", Map.of());
  }

  /** Starts it again from the time that it shows. */
  public void startClock() {
    order("POST", "clock/start", Map.of());
  }

  /** Advances it, and does all work due by then. */
  public void stepClock(Duration step) {
    order("POST", "clock/step", Map.of("seconds", step.toMillis() / 1000.0));
  }

  /** Sets it. */
  public void setClock(Instant to) {
    order("POST", "clock/set", Map.of("to", to.toString()));
  }

  /** Requests a fault, {@code fault("nack-confirms", Map.of("queue", "orders"))}, and returns its number. */
  public long fault(String name, Map<String, ?> how) {
    Map<String, Object> values = new HashMap<>(how);
    values.put("fault", name);
    return (Long) ((Map<?, ?>) order("POST", "faults", values)).get("id");
  }

  /** Returns the requested faults: how often each has {@code fired}, and how often it still may ({@code left}). */
  @SuppressWarnings("unchecked")
  public List<Map<String, Object>> faults() {
    return (List<Map<String, Object>>) order("GET", "faults", Map.of());
  }

  /** Lifts all faults. */
  public void liftFaults() {
    order("DELETE", "faults", Map.of());
  }

  /** Saves definitions and persistent messages. */
  public void saveSnapshot(String name) {
    order("PUT", "snapshots/" + encoded(name), Map.of());
  }

  /** Restores them: connections are closed, all else is deleted. */
  public void restoreSnapshot(String name) {
    order("POST", "snapshots/" + encoded(name) + "/restore", Map.of());
  }
}
