package leveret;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives tests a {@link Leveret} as a parameter, {@code @ExtendWith(LeveretExtension.class)}: one for the process, which is
 * running and empty before each test. The configuration parameter {@code leveret.personality} says which RabbitMQ it is.
 */
public final class LeveretExtension implements BeforeEachCallback, ParameterResolver {
  private static final Map<String, Leveret> SHARED = new ConcurrentHashMap<>();

  @Override
  public void beforeEach(ExtensionContext context) {
    shared(context).fresh();
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
