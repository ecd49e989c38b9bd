package leveret;

import java.util.Arrays;
import java.util.Set;

/** An expectation was not met in time; the message says what was seen instead. The trace begins with the test. */
public class NotMetError extends AssertionError {
  private static final long serialVersionUID = 1;
  private static final Set<String> OURS = Set.of(Control.class.getName(), Leveret.class.getName());

  NotMetError(String message) {
    super(message);
    StackTraceElement[] all = getStackTrace();
    setStackTrace(
        Arrays.stream(all).dropWhile(frame -> OURS.contains(frame.getClassName())).toArray(StackTraceElement[]::new));
  }
}
