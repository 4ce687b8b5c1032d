"""Random values from the operating system."""

import os
import secrets


class RealEntropy:
    """Unpredictable bytes and numbers from the operating system."""

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def random_below(self, limit: int) -> int:
        return secrets.randbelow(limit)
