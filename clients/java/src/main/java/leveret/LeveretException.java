package leveret;

/** The broker did not start, does not answer, or refuses a request; the message has the reason. */
public class LeveretException extends RuntimeException {
  private static final long serialVersionUID = 1;

  LeveretException(String message) {
    super(message);
  }

  LeveretException(String message, Throwable cause) {
    super(message, cause);
  }
}
