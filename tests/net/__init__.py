"""Released numbers, every bit of them, as an earlier version had them."""
