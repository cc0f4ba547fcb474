"""Locks for libraries that are not thread-safe, shared by every benchmark that uses them."""

import threading

TEXTWORLD = threading.RLock()
"""Held around every call into textworld, by ALFWorld and TextWorld alike.

Its parsers are one TatSu object a module (`textworld.logic`, `textworld.envs.pddl`, `textworld.textgen`), whose stack
two threads corrupt; its translator of PDDL keeps options in globals and replaces sys.argv and sys.stdout; its generator
draws from a global generator of random numbers. Threads would gain little without the lock: all of it is Python and
waits for the interpreter lock. The planner's search, which is C++ in a library of the game's own, needs no lock.
"""
