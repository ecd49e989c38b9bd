/* rabbitmq-c. Build: cc -O2 -o rabbitmq_c_steps rabbitmq_c_steps.c -lrabbitmq */
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONNECT, CHANNEL, DECLARE, BIND, PUBLISH, GET, ACK, CONSUME, CANCEL, DELETE, CLOSE, STEPS };
static const char *const names_of[] = {"connect", "channel", "declare", "bind",   "publish", "get",
                                       "ack",     "consume", "cancel",  "delete", "close"};
static double *times_of[STEPS];
static int counts[STEPS];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static double took(int step, double began) {
  times_of[step] = realloc(times_of[step], (counts[step] + 1) * sizeof(double));
  times_of[step][counts[step]++] = now() - began;
  return now();
}

static void check(amqp_rpc_reply_t reply, const char *what) {
  if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
  fprintf(stderr, "%s failed\n", what);
  exit(1);
}

static void publish(amqp_connection_state_t c, amqp_bytes_t key) {
  static char body[100];
  amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
  amqp_bytes_t bytes = {sizeof body, body};
  amqp_frame_t frame;
  amqp_basic_publish(c, 1, amqp_cstring_bytes("amq.direct"), key, 0, 0, &properties, bytes);
  do
    if (amqp_simple_wait_frame(c, &frame) != AMQP_STATUS_OK) exit(1);
  while (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD);
}

static uint64_t get(amqp_connection_state_t c, amqp_bytes_t queue) {
  amqp_message_t message;
  amqp_rpc_reply_t reply = amqp_basic_get(c, 1, queue, 0);
  check(reply, "get");
  uint64_t tag = ((amqp_basic_get_ok_t *)reply.reply.decoded)->delivery_tag;
  check(amqp_read_message(c, 1, &message, 0), "message");
  amqp_destroy_message(&message);
  return tag;
}

static uint64_t delivered(amqp_connection_state_t c) {
  amqp_envelope_t envelope;
  check(amqp_consume_message(c, &envelope, NULL, 0), "delivery");
  uint64_t tag = envelope.delivery_tag;
  amqp_destroy_envelope(&envelope);
  return tag;
}

static void session(char *uri, int n) {
  amqp_bytes_t direct = amqp_cstring_bytes("amq.direct"), tag = amqp_cstring_bytes("bench");
  char texts[n][64], copy[1024];
  amqp_bytes_t queues[n];
  for (int i = 0; i < n; i++) {
    snprintf(texts[i], sizeof texts[i], "bench.clients.c.%d", i);
    queues[i] = amqp_cstring_bytes(texts[i]);
  }
  snprintf(copy, sizeof copy, "%s", uri);
  struct amqp_connection_info to;
  if (amqp_parse_url(copy, &to) != AMQP_STATUS_OK) exit(1);

  double at = now();
  amqp_connection_state_t c = amqp_new_connection();
  if (amqp_socket_open(amqp_tcp_socket_new(c), to.host, to.port)) exit(1);
  check(amqp_login(c, to.vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, to.user, to.password), "login");
  at = took(CONNECT, at);
  amqp_channel_open(c, 1);
  check(amqp_get_rpc_reply(c), "channel");
  took(CHANNEL, at);
  amqp_confirm_select(c, 1);
  at = now();
  for (int i = 0; i < n; i++) {
    amqp_queue_declare(c, 1, queues[i], 0, 1, 0, 0, amqp_empty_table);
    check(amqp_get_rpc_reply(c), "declare");
    at = took(DECLARE, at);
    amqp_queue_bind(c, 1, queues[i], direct, queues[i], amqp_empty_table);
    check(amqp_get_rpc_reply(c), "bind");
    at = took(BIND, at);
  }
  for (int i = 0; i < n; i++) publish(c, queues[0]), at = took(PUBLISH, at);
  for (int i = 0; i < n; i++) {
    uint64_t number = get(c, queues[0]);
    at = took(GET, at);
    amqp_basic_ack(c, 1, number, 0);
    at = took(ACK, at);
  }
  for (int i = 0; i < n; i++) publish(c, queues[0]);
  amqp_basic_qos(c, 1, 0, 1, 0);
  at = now();
  for (int i = 0; i < n; i++) {
    if (i == 0) amqp_basic_consume(c, 1, queues[0], tag, 0, 0, 0, amqp_empty_table);
    amqp_basic_ack(c, 1, delivered(c), 0);
    at = took(CONSUME, at);
  }
  amqp_basic_cancel(c, 1, tag);
  at = took(CANCEL, at);
  for (int i = 0; i < n; i++) amqp_queue_delete(c, 1, queues[i], 0, 0), at = took(DELETE, at);
  check(amqp_connection_close(c, AMQP_REPLY_SUCCESS), "close");
  amqp_destroy_connection(c);
  took(CLOSE, at);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  for (int i = 0; i < atoi(argv[2]); i++) session(argv[1], atoi(argv[3]));
  for (int step = 0; step < STEPS; step++) {
    printf("%s\"%s\": [", step ? ", " : "{", names_of[step]);
    for (int i = 0; i < counts[step]; i++) printf("%s%.4f", i ? ", " : "", times_of[step][i]);
    printf("]");
  }
  printf("}\n");
}
