"""The questions that SDP's operators ask for research (SDP paper, appendix A.4); the wording is ours."""

DECOMPOSE = """\
Question: {task}

Plan the research in at most {most} steps, each narrowing down what the one before left. A step is one of:
collect: gather candidates or raw facts from the web;
filter: keep those of what is known that meet one criterion, looking up what decides it;
extract: find one particular fact;
compute: calculate or compare what was found, without looking anything up.
Give each step's goal in one sentence that can be checked against a finding: what will be known once it is done. Do not
answer anything, and add no step that writes the answer: that comes by itself.
"""

TOOLS = """\
Question: {task}

Found so far:
{known}

Results at hand, by number; some are read already, some cannot be:
{view}

Tried for this step in vain:
{failed}
{notes}
Step ({kind}): {goal}
Choose what to look up for this step alone: at most {queries} searches, in a few words each, names first, and at most
{pages} numbers of results worth reading: unread ones, or one that was read for another step and tells this one too. The
first result of each search is read anyway. Nothing that was tried again. Where what was found so far already settles
the step, give empty lists.
"""

FIND = """\
Question behind it: {task}

Found so far:
{known}

Sources, by number:
{evidence}

Step ({kind}): {goal}
State what the sources and what was found so far establish for this step, in one or two sentences with names, numbers
and dates as the sources have them. Say what is missing or uncertain; invent nothing; an empty text if nothing is
established. supported_by: the numbers of the sources that say so. contradicted_by: the numbers of sources on the same
thing that say otherwise, whether out of date or simply different; dispute: what they say instead, empty if none does.
"""

JUDGE = """\
Step ({kind}): {goal}

Found so far:
{known}

Finding:
{finding}
{unseen}It rests on:
{sources}
{dispute}
Does the finding settle the step? It does when it states what the step asks for, on the grounds of sources or of what
was found so far. It does not when it is about something else, only promises or guesses, or leaves out what was asked.
"""

CONCLUDE = """\
Question: {task}

Found, step by step:
{known}

Results at hand:
{view}

Refused before, or done on the way:
{failed}
{notes}
Answer the question from what was found, in the form that it asks for: a number alone, a name alone, one text for each
item of a list, or one JSON object a text where it asks for JSON. No sentence, no explanation.
"""

CLOSEST = """
What was found does not settle the question fully. Give the closest matches or the best estimate that it supports: an
answer that is partly right is worth more than none.
"""

RETHINK = """\
Question: {task}

Found so far:
{known}

Step ({kind}) that could not be settled: {goal}
What was tried for it, and why it did not do:
{failed}

Results at hand, by number; some are read already, some cannot be:
{view}

Change the approach: other words, another kind of site, a source that would list or compare what is looked for, a part
of the question that is easier to find. Give at most {queries} new searches and at most {pages} numbers of unread
results to read next. Empty lists if there is no other way.
"""
