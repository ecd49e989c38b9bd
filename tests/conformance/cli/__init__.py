"""RabbitMQ's command lines, `rabbitmqctl` and its like, as RabbitMQ 3.10.8 and 4.3.6 have them.

The tables say what is printed and what the exit code is:

    $ rabbitmqctl delete_user nosuch -> 67
    | Deleting user "nosuch" ...
    ! Error:
    ! User "nosuch" does not exist
    4.3
    | Deleting user "nosuch" ...

`|` is standard output, `!` standard error, `->` the exit code where it is not 0. A block below a line `4.3` is what
4.3.6 does where it differs, one below a line `leveret` what Leveret does where it differs on purpose, and one below
`leveret 4.3` what it does so with that personality. A section whose title ends with [4.3] or [3.10] is for that series
alone. {*} stands for any text, {**} for any lines to the end; {node}, {port}, {http} and {dir} are the broker's and the
test's.
"""
