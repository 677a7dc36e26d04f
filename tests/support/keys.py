"""Keys that everybody knows, for known answers."""

import warnings

from counton.noise import InsecureKeyWarning, InsecureSeededKey, Key


def chosen_key(secret: bytes = bytes(range(32))) -> Key:
    """The key with these bytes, without the warning that it protects nobody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        return InsecureSeededKey.from_bytes(secret)
