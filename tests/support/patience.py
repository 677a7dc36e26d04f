"""How long tests wait for what must come: only what hangs takes so long."""

#: Seconds after which a process, an answer or a step is taken never to come.
HANGS = 1800.0
