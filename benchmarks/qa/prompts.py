"""Prompts of SDP's operators for multi-hop questions."""

DECOMPOSER = """\
You plan how a question is answered from a collection of passages. No single passage answers it: each tells a fact, and
the facts lead to each other. You split the question into sub-questions. Each of them is answered from one passage and
checked against that passage; its answer may then stand in the sub-questions after it."""

DECOMPOSE = """\
Think first: what does the question name, what does it only describe, and what has to be known before the last fact can
be looked up? Then split it into {count} sub-questions, in the order in which they can be answered.
- Each asks for one thing that a single passage can tell, and names what it is about as the question does.
- Where one needs what an earlier one asks for, write #1 for the answer of the first, #2 for that of the second. Write
  no "he", "it" or "that place" for it.
- Each condition of the question (a date, a place, a kind) stands in the sub-question that it belongs to.
- For a comparison, ask for what is compared, once for each side.
- The answers together settle the question.
Do not answer anything, and do not guess a name that the question leaves open.

Question: {task}
Which sub-questions answer it?
"""

REDECOMPOSE = """\
Think first: why could what was asked for last not be found? It may ask for two things at once, start at the wrong end,
use a name that the passages do not use, or ask for what the question does not need. Then write the sub-questions that
are still needed after those known. Take another way than the ones that failed: ask for something else, or in other
words. Each asks for one thing that a single passage can tell; #1 stands for the answer of sub-question 1, and so on. If
what is known settles the question, give an empty list.

Question: {task}

Already known; keep it:
{certified}

What was asked next and could not be found:
{failed}

Which sub-questions are still needed? Give at most {count}, the first of which is number {first}.
"""

SEARCHER = """\
You search a collection of passages for the one that answers a sub-question of a larger question. The search goes by
words, and first by the words of titles; it does not understand what is meant."""

QUERY = """\
Write a few words to search for, names first, that bring up the passage which answers the sub-question: the name of what
that passage is about, and words that it is likely to use. No query from the list again. If several brought up nothing
of use, look for something else that would tell it, such as the passage about the answer.

Question behind it: {task}

Found for it so far:
{chain}
{titles}
Sub-question: {question}

Searched in vain:
{failed}
{advice}
What is to be searched for?
"""

GUESS = """\
Nothing that was searched for brought up the answer of the sub-question. Name the most likely answer that is not in the
list, a name or a few words. It is searched for, so that a passage can confirm or refute it; it does not count as found
by itself.

Question behind it: {task}

Found for it so far:
{chain}

Sub-question: {question}

Searched in vain:
{failed}

What is the most likely answer?
"""

READER = """\
You answer one sub-question of a larger question from passages, and say which of them tells the answer. Somebody who
sees nothing but that passage then checks what you found, and later sub-questions build on it. Go by the passages, also
where you know otherwise."""

FIND = """\
Think first: which passages are about what it names (several things may have the same name), which sentences tell the
answer, and does it fit the question behind it? Found is true where one passage answers it, outright or by an evident
step; it is false where a passage is only about the same thing. The title is that passage's own, the finding its
sentences that tell the answer, whole, the entity only the name, number, date, yes or no, as the passage writes it.

Question behind it: {task}

Passages, each with its title before the colon:
{passages}

Found for it so far:
{chain}
{notes}
Not accepted before, with the reason:
{failed}

Sub-question: {question}
Which passage answers it, and what is the answer?
"""

VERIFIER = """\
You check what was found for a question. You go by the text that you are shown, not by what you know, and not by how
likely it is. What you accept is taken as proven from then on, and an error in it spoils all that follows."""

VERIFY = """\
Check whether the finding is supported by the passage, and whether it answers the sub-question.
- It is supported if the passage says it, or if it follows by an evident step: the title is what "he" or "the film"
  means, who was born and raised in a place was born there, and "the Oslo painter X" comes from Oslo. A step that takes
  a further fact, or what you happen to know, is not evident.
- It answers the sub-question if it is about what that names, and not about something else of a similar name, and if the
  answer is the one asked for and not another person, place, date or number of the same passage.
Another spelling of the same name, a shorter form, or a fact more than was asked for speaks against neither.
Give, in this order:
- reason: what the passage says about it.
- quotes: the words of the passage that show it, each copied exactly, without a word left out; empty if none do. Words
  that are not in the passage refute the finding.
- supported: true only if both hold.

Sub-question: {question}
Finding: {finding}
Answer: {entity}

Passage:
{passage}

Does this passage support the finding, and does it answer the sub-question?
"""

CONCLUDER = """\
You answer a question from findings that were checked one by one against passages. Go by the findings, also where you
know otherwise."""

CONCLUDE = """\
Think first: what exactly does the question ask for (a name, a number, a date, yes or no), and which finding gives it,
or which findings have to be compared? Then give the answer alone, in the form that the question asks for, without an
explanation.

Question: {task}

Established, step by step:
{chain}

Not accepted before, with the reason:
{failed}

What is the answer to the question?
"""

CONSISTENT = """\
Does the proposed answer follow from what is established, and is it what the question asks for? It is not if a finding
that it needs is missing or about something else, if it is only a step on the way, or if it is of another kind than was
asked for. A shorter form of the same name, or an evident step from the findings (a comparison, a sum, the same place by
another name), speaks against nothing. Give a short reason first.

Question: {task}

Established, step by step:
{chain}

Proposed answer: {answer}
Does it follow, and is it what was asked for?
"""
