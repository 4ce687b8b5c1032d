"""Error messages for a broker that cannot listen on its address."""

import errno

from penstock.base.errors import UserError
from penstock.base.listeners import render_address

_PRIVILEGED_PORTS_BELOW = 1024


class AddressInUseError(UserError):
    """Another program listens on the address."""


def listen_error(error: OSError, host: str, port: int, *, option: str) -> UserError:
    """The error for the user; `option` is the command line option that sets the address."""
    problem = f"cannot listen on {render_address(host, port)}"
    if error.errno == errno.EADDRINUSE:
        return AddressInUseError(
            f"{problem}: another program listens there; stop it, or choose another address with {option}"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        why = "this user may not listen on that port"
        if port < _PRIVILEGED_PORTS_BELOW:
            why = f"ports below {_PRIVILEGED_PORTS_BELOW} need the right to (CAP_NET_BIND_SERVICE on Linux)"
        return UserError(f"{problem}: {why}; choose another port with {option}, 9092 for instance")
    return UserError(f"{problem}: {error}; choose an address of this machine with {option}")
