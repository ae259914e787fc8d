"""A check whether a cluster answers."""
import socket

CONNECT_SECONDS = 10


def check_reachable(address):
    """Raises ConnectionError where no process listens. Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # "auto", "local": nothing to reach
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ConnectionError(f"no Ray cluster answers at {address}: {error}; `ray status` there tells more") from error
