package leveret;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The process {@code leveret test-brokers}, which runs this process's brokers: a request and an answer by a line of JSON
 * each. It and all its brokers end with this process, in whatever way, because that closes its standard input.
 */
final class Host {
  private static final Map<String, Host> HOSTS = new HashMap<>();

  private final Process process;
  private final Writer requests;
  private final Map<Long, CompletableFuture<Object>> waiting = new ConcurrentHashMap<>();
  private final AtomicInteger last = new AtomicInteger();

  private Host(String program) {
    try {
      process = new ProcessBuilder(program, "test-brokers").redirectError(ProcessBuilder.Redirect.INHERIT).start();
    } catch (IOException error) {
      String remedy = "unpack the directory of Leveret and name its program in LEVERET_PROGRAM";
      throw new LeveretException(error.getMessage() + ": " + remedy, error);
    }
    requests = new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8);
    Thread hearing = new Thread(this::hear, "leveret");
    hearing.setDaemon(true);
    hearing.start();
  }

  /** Returns the process of a program, or of that in the environment; it runs from its first use on. */
  static synchronized Host of(String given) {
    String named = given != null ? given : System.getenv("LEVERET_PROGRAM");
    String program = named != null ? named : "leveret";
    HOSTS.computeIfPresent(program, (name, host) -> host.process.isAlive() ? host : null);
    return HOSTS.computeIfAbsent(program, Host::new);
  }

  /** Returns a number for a broker or a request. */
  int next() {
    return last.incrementAndGet();
  }

  /** Sends a request and waits for its answer. */
  Object ask(String request, int broker, Map<String, Object> values) {
    long id = next();
    Map<String, Object> message = new HashMap<>(values);
    message.putAll(Map.of("id", id, "request", request, "broker", broker));
    CompletableFuture<Object> answer = new CompletableFuture<>();
    waiting.put(id, answer);
    try {
      synchronized (requests) {
        requests.write(Json.write(message) + "\n");
        requests.flush();
      }
      return answer.join();
    } catch (IOException error) {
      waiting.remove(id);
      throw new LeveretException("the process of the brokers has ended", error);
    } catch (CompletionException error) {
      throw new LeveretException(error.getCause().getMessage(), error);
    }
  }

  /** Passes answers on until the process ends. */
  private void hear() {
    try (BufferedReader lines =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        Map<?, ?> said = (Map<?, ?>) Json.read(line);
        CompletableFuture<Object> answer = waiting.remove((Long) said.get("id"));
        if (said.containsKey("error")) answer.completeExceptionally(new LeveretException((String) said.get("error")));
        else answer.complete(said.get("answer"));
      }
    } catch (IOException error) {
      // It has ended.
    }
    for (CompletableFuture<Object> answer : waiting.values()) {
      answer.completeExceptionally(new LeveretException("the process of the brokers has ended"));
    }
  }
}
