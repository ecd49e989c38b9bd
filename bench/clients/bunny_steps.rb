# Ruby's Bunny.
require "bunny"
require "json"

URI_, SESSIONS, TIMES = ARGV[0], ARGV[1].to_i, ARGV[2].to_i
BODY = "x" * 100
STEPS = Hash.new { |steps, step| steps[step] = [] }

def timed(step)
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  result = yield
  STEPS[step] << (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 1000
  result
end

def session
  names = (0...TIMES).map { |number| "bench.clients.bunny.#{number}" }
  connection = timed("connect") { Bunny.new(URI_).start }
  channel = timed("channel") { connection.create_channel }
  channel.confirm_select
  exchange = channel.direct("amq.direct", durable: true)
  queues = names.map do |name|
    queue = timed("declare") { channel.queue(name, durable: true) }
    timed("bind") { queue.bind("amq.direct", routing_key: name) }
    queue
  end
  publish = lambda do
    exchange.publish(BODY, routing_key: names[0], persistent: true)
    channel.wait_for_confirms
  end
  TIMES.times { timed("publish", &publish) }
  TIMES.times do
    delivered, = timed("get") { queues[0].pop(manual_ack: true) }
    timed("ack") { channel.ack(delivered.delivery_tag) }
  end
  TIMES.times { publish.call }
  channel.prefetch(1)
  arrived = ::Queue.new
  consumer = nil
  TIMES.times do |number|
    timed("consume") do
      consumer = queues[0].subscribe(manual_ack: true) { |delivered, *| arrived << delivered } if number.zero?
      channel.ack(arrived.pop.delivery_tag)
    end
  end
  timed("cancel") { consumer.cancel }
  queues.each { |queue| timed("delete") { queue.delete } }
  timed("close") { connection.close }
end

SESSIONS.times { session }
puts JSON.generate(STEPS)
