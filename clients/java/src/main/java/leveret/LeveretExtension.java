package leveret;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives tests a {@link Leveret} as a parameter, {@code @ExtendWith(LeveretExtension.class)}: one for the process, which is
 * running and empty before each test; a failed test shows its log. The configuration parameter
 * {@code leveret.personality} says which RabbitMQ it is.
 */
public final class LeveretExtension implements BeforeEachCallback, AfterTestExecutionCallback, ParameterResolver {
  private static final Map<String, Leveret> SHARED = new ConcurrentHashMap<>();
  private int logBefore;

  @Override
  public void beforeEach(ExtensionContext context) {
    shared(context).fresh();
    logBefore = shared(context).log().length();
  }

  @Override
  public void afterTestExecution(ExtensionContext context) {
    String log = shared(context).log().substring(logBefore);
    if (context.getExecutionException().isPresent() && !log.isBlank()) {
      System.err.println("the broker's log during the test:\n" + log);
    }
  }

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
    return parameter.getParameter().getType() == Leveret.class;
  }

  @Override
  public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
    return shared(context);
  }

  private static Leveret shared(ExtensionContext context) {
    String personality = context.getConfigurationParameter("leveret.personality").orElse("");
    return SHARED.computeIfAbsent(personality, named -> Leveret.start(named, ""));
  }
}
