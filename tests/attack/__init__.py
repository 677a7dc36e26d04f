"""Attacks with fresh seeds: ``python -m tests.attack`` (`make attack`) tries for some time."""
