"""RabbitMQ's command lines, `rabbitmqctl` and its like, as a RabbitMQ 3.10.8 has them.

The tables say what is printed and what the exit code is:

    $ rabbitmqctl delete_user nosuch -> 67
    | Deleting user "nosuch" ...
    ! Error:
    ! User "nosuch" does not exist

`|` is standard output, `!` standard error, `->` the exit code where it is not 0. A block below a line `leveret` is what
Leveret does where it differs on purpose. {*} stands for any text, {**} for any lines to the end; {node}, {port}, {http}
and {dir} are the broker's and the test's.
"""
