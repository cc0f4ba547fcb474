"""The questions that SDP's operators ask for multi-hop question answering."""

DECOMPOSE = """\
Question: {task}

Split it into {count} sub-questions, in the order in which they can be answered. Each asks for one thing that a single
paragraph can tell. Where one needs what an earlier one asks for, write #1 for the answer of the first, #2 for that of
the second. The answers together settle the question. Do not answer anything.
"""

REDECOMPOSE = """\
Question: {task}

Already known; keep it:
{certified}

What was asked next and could not be found:
{failed}

Write the sub-questions that are still needed after those known, at most {count}, the first of which is number
{first}. Take another way than the ones that failed: ask for something else, or in other words. Each asks for one thing
that a single paragraph can tell; #1 stands for the answer of sub-question 1, and so on. If what is known settles the
question, give an empty list.
"""

QUERY = """\
Question: {task}

Found for it so far:
{chain}

Searched in vain:
{failed}
{advice}
Sub-question: {question}
Write a few words to search for, names first, that bring up the paragraph which answers the sub-question. No query
from the list again.
"""

GUESS = """\
Question: {task}

Searched in vain:
{failed}

Sub-question: {question}
Nothing that was searched for brought up its answer. Name the most likely answer that is not in the list, a name or a
few words.
"""

FIND = """\
Paragraphs, each with its title before the colon:
{passages}

Question behind it: {task}

Found for it so far:
{chain}
{notes}
Not accepted before:
{failed}

Sub-question: {question}
Answer it from one of the paragraphs. Found is true where one answers it. The title is that paragraph's own, the finding
its sentences that tell the answer, the entity only the name, number, date, yes or no.
"""

VERIFY = """\
Paragraph:
{passage}

Sub-question: {question}
Finding: {finding}
Answer: {entity}

Is the finding supported by this paragraph, and does it answer the sub-question? Give a short reason first.
"""

CONCLUDE = """\
Question: {task}

Established, step by step:
{chain}

Not accepted before:
{failed}

Answer the question from what is established: only the name, number, date, yes or no that it asks for.
"""

CONSISTENT = """\
Question: {task}

Established, step by step:
{chain}

Proposed answer: {answer}
Does it follow from what is established, and is it what the question asks for? Give a short reason first.
"""
