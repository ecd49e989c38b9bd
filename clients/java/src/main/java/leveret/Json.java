package leveret;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads and writes JSON: maps, lists, texts, numbers, booleans and null. The JDK has nothing for it. */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /** Returns the value of a text: Map, List, String, Long, Double, Boolean or null. */
  static Object read(String text) {
    Json reader = new Json(text);
    return reader.value();
  }

  static String write(Object value) {
    if (value instanceof Map) {
      List<String> members = new ArrayList<>();
      ((Map<?, ?>) value).forEach((name, each) -> members.add(write(name) + ":" + write(each)));
      return "{" + String.join(",", members) + "}";
    }
    if (value instanceof Number || value instanceof Boolean || value == null) return String.valueOf(value);
    return quoted(value.toString());
  }

  private static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char each : text.toCharArray()) {
      if (each == '"' || each == '\\') quoted.append('\\').append(each);
      else if (each < ' ') quoted.append(String.format("\\u%04x", (int) each));
      else quoted.append(each);
    }
    return quoted.append('"').toString();
  }

  private Object value() {
    switch (next()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        return string();
      default:
        return literal();
    }
  }

  /** Returns the next character that is no space, and stays before it. */
  private char next() {
    while (Character.isWhitespace(text.charAt(at))) at++;
    return text.charAt(at);
  }

  private boolean skip(char wanted) {
    boolean found = next() == wanted;
    if (found) at++;
    return found;
  }

  private Map<String, Object> object() {
    Map<String, Object> members = new LinkedHashMap<>();
    skip('{');
    while (!skip('}')) {
      next();
      String name = string();
      skip(':');
      members.put(name, value());
      skip(',');
    }
    return members;
  }

  private List<Object> array() {
    List<Object> items = new ArrayList<>();
    skip('[');
    while (!skip(']')) {
      items.add(value());
      skip(',');
    }
    return items;
  }

  private String string() {
    StringBuilder found = new StringBuilder();
    for (at++; text.charAt(at) != '"'; at++) {
      if (text.charAt(at) != '\\') {
        found.append(text.charAt(at));
        continue;
      }
      char escaped = text.charAt(++at);
      if (escaped == 'u') {
        found.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
        at += 4;
      } else {
        int control = "bfnrt".indexOf(escaped);
        found.append(control < 0 ? escaped : "\b\f\n\r\t".charAt(control));
      }
    }
    at++;
    return found.toString();
  }

  private Object literal() {
    int from = at;
    while (at < text.length() && ",]} \n\r\t".indexOf(text.charAt(at)) < 0) at++;
    String word = text.substring(from, at);
    switch (word) {
      case "true":
        return true;
      case "false":
        return false;
      case "null":
        return null;
      default:
        return word.matches("-?\\d+") ? (Object) Long.valueOf(word) : (Object) Double.valueOf(word);
    }
  }
}
