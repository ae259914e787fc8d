"""Reaching a cluster: a check whether it answers, and further attempts where its server for clients failed."""
import socket
import time

CONNECT_SECONDS = 10
# The head starts a server process for each client (ray://). On a busy machine that fails now and then: by a fork,
# or because psutil finds the process not yet or no more.
CLIENT_ATTEMPTS, CLIENT_PAUSE_SECONDS = 5, 1
CLIENT_FAILURES = ("Starting Ray client server failed", "Initialization failure from server")


def connect_patiently(connect, undo, pause_seconds=CLIENT_PAUSE_SECONDS):
    """Calls connect(). Where the server of a client failed, calls undo() and tries again, up to CLIENT_ATTEMPTS times.
    Raises the ConnectionError of the last attempt."""
    for attempt in range(1, CLIENT_ATTEMPTS + 1):
        try:
            return connect()
        except ConnectionError as error:
            if attempt == CLIENT_ATTEMPTS or not any(words in str(error) for words in CLIENT_FAILURES):
                raise
            undo()
            time.sleep(pause_seconds)


def check_reachable(address):
    """Raises ConnectionError where no process listens. Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # "auto", "local": nothing to reach
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"no Ray cluster answers at {address}: {error}; `ray status` there tells more") from error
