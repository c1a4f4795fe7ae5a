"""Stand-ins for the packers of training frameworks, with the signature and the shape of the result of each.

What they have in common: the fewest micro-batches that can be proved or found instead of a heuristic's number, a hard token
cap, as many micro-batches on every rank, and rows balanced by attention cost. They see lengths only; plan with routes
(``routepack.start``) to balance experts too. The same input gives the same result on every rank.

Every module says what it stands in for; nothing of a framework is imported, except NeMo-RL's base class where it is there.
"""
