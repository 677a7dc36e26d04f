"""Statistics of graphs whose edges come one by one."""
