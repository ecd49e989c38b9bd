<?php
// php-amqplib: its stream connection.
require_once getenv("PHP_AMQPLIB") ?: "/usr/share/php/PhpAmqpLib/autoload.php";

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;

$steps = [];

function timed(string $step, callable $operation)
{
    global $steps;
    $began = hrtime(true);
    $result = $operation();
    $steps[$step][] = (hrtime(true) - $began) / 1e6;
    return $result;
}

function session(array $uri, int $times): void
{
    $names = array_map(fn ($number) => "bench.clients.php.$number", range(0, $times - 1));
    $vhost = rawurldecode(substr($uri["path"] ?? "/%2F", 1));
    $connection = timed("connect", fn () => new AMQPStreamConnection(
        $uri["host"], $uri["port"], $uri["user"], $uri["pass"], $vhost
    ));
    $channel = timed("channel", fn () => $connection->channel());
    $channel->confirm_select();
    foreach ($names as $name) {
        timed("declare", fn () => $channel->queue_declare($name, false, true, false, false));
        timed("bind", fn () => $channel->queue_bind($name, "amq.direct", $name));
    }
    $publish = function () use ($channel, $names) {
        $message = new AMQPMessage(str_repeat("x", 100), ["delivery_mode" => AMQPMessage::DELIVERY_MODE_PERSISTENT]);
        $channel->basic_publish($message, "amq.direct", $names[0]);
        $channel->wait_for_pending_acks();
    };
    foreach ($names as $_) {
        timed("publish", $publish);
    }
    foreach ($names as $_) {
        $message = timed("get", fn () => $channel->basic_get($names[0]));
        timed("ack", fn () => $message->ack());
    }
    foreach ($names as $_) {
        $publish();
    }
    $channel->basic_qos(0, 1, false);
    $arrived = [];
    $tag = "";
    foreach ($names as $number => $_) {
        timed("consume", function () use ($channel, $names, $number, &$arrived, &$tag) {
            if ($number === 0) {
                $take = function ($message) use (&$arrived) {
                    $arrived[] = $message;
                };
                $tag = $channel->basic_consume($names[0], "", false, false, false, false, $take);
            }
            while (!$arrived) {
                $channel->wait();
            }
            array_shift($arrived)->ack();
        });
    }
    timed("cancel", fn () => $channel->basic_cancel($tag));
    foreach ($names as $name) {
        timed("delete", fn () => $channel->queue_delete($name));
    }
    timed("close", fn () => $connection->close());
}

for ($number = 0; $number < (int) $argv[2]; $number++) {
    session(parse_url($argv[1]), (int) $argv[3]);
}
echo json_encode($steps), "\n";
