package leveret;

/** An expectation was not met in time; the message says what was seen instead. */
public class NotMetError extends AssertionError {
  private static final long serialVersionUID = 1;

  NotMetError(String message) {
    super(message);
  }
}
