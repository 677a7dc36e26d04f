"""Statistics of graphs whose edges arrive one by one."""
