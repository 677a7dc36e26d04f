"""Speed of counton against numpy and its peers, as ratios within one run. `make bench` runs it."""
