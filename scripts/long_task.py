"""A task of exactly 60 needed tool calls in 11 rounds that depend on one another's answers.

Six cases of a network of depots are traced from stage to stage; the numbers that a round needs stand in the answers of
the rounds before. `diff()` compares the database (at LONG_DB; its table `calls` logs every call) with what the sheets
demand, whatever way was taken; `solve()` makes the 60 calls; `python long_task.py` shows calls per round and diff.
"""

import json
import os
import re
import sqlite3
import zlib
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Literal

PATH = os.environ.get("LONG_DB", "long_task.sqlite")
INSTRUCTIONS = """You work at the claims desk of Larkfield Freight, a network of depots. Today is 2026-05-12. The rule
sheets decide what is done. Answers name the sheet that applies: read it before you act, each sheet once. Holds, checks,
credits, re-dispatches, mails and closings are final: make each once, and only where a sheet demands it."""
GOAL = """Work off the six cases K-201, K-202, K-203, K-204, K-205 and K-206: trace each consignment, do all that the
rule sheets demand and nothing else, and close every case with the right resolution and reference. At the end give me a
list: case, resolution, euros credited (0 if none), reference of the closing."""
CASES = re.findall(r"K-\d+", GOAL)
Depot = Literal["Beja", "Elvas", "Evora", "Guarda", "Lagos", "Sines", "Tomar", "Viseu"]
Resolution = Literal["credited", "redispatched", "refused", "escalated"]
RECORDS: dict[str | tuple[str, str], str] = {
    "K-201": "reported 2026-05-10, CG-48213. It was dropped, we hear. We want its full value. Sheet TR-4 applies.",
    "K-202": "reported 2026-05-09, CG-51907. Nothing has come. Where is it? Sheet TR-4 applies.",
    "K-203": "reported 2026-05-11, CG-50364. It was due on 8 May. Please deliver it. Sheet TR-4 applies.",
    "K-204": "reported 2026-05-10, CG-47750. It is crushed. We will settle for 5000 euros. Sheet TR-4 applies.",
    "K-205": "reported 2026-05-09, CG-49118. Two chairs are broken. Please pay 300 euros. Sheet TR-4 applies.",
    "K-206": "reported 2026-05-11, CG-52286. Please send it on as it is, we ask for no money. Sheet TR-4 applies.",
    "CG-48213": "lenses, 420 kg, declared value 9800.00, freight 310.00, account 7731, UNDER WAY, M-5531",
    "CG-51907": "ceramics, 300 kg, declared value 6400.00, freight 96.00, account 7204, UNDER WAY, M-5531",
    "CG-50364": "pumps, 480 kg, declared value 3900.00, freight 142.00, account 7460, UNDER WAY, M-5548",
    "CG-47750": "cabinets, 640 kg, declared value 18000.00, freight 420.00, account 7915, UNDER WAY, M-5531",
    "CG-49118": "chairs, 96 kg, declared value 1150.00, freight 64.00, account 7088, DELIVERED (RC-8840), M-5548",
    "CG-52286": "cheese (food), 260 kg, declared value 1940.00, freight 118.40, account 7352, UNDER WAY, M-5548",
    "M-5531": "CG-48213 unloaded at Elvas, CG-51907 due at Beja, CG-47750 unloaded at Tomar",
    "M-5548": "CG-50364 unloaded at Guarda, CG-49118 unloaded at Lagos, CG-52286 unloaded at Elvas",
    "CN-3107": "limit 11.50 euros per kg, deductible 150.00, credit account 8810, line L-12 for any weight",
    "CN-2284": "limit 20.00 euros per kg, deductible 200.00, credit account 7204, line L-12 for any weight",
    "CN-4419": "limit 9.00 euros per kg, deductible 100.00, credit account 7460, line L-20 to 500 kg, L-35 above",
    "CN-2960": "limit 12.00 euros per kg, deductible 250.00, credit account 8822, line L-20 to 500 kg, L-31 above",
    # what depots know: depot, reference (a hold stands for its consignment)
    ("Elvas", "CG-48213"): "CG-48213 stands here in bay 7, damaged. Sheet DM-9 applies.",
    ("Beja", "CG-51907"): "CG-51907 was not on the trailer when it came. Sheet LS-2 applies; depot Evora, note N-3172.",
    ("Guarda", "CG-50364"): "CG-50364 stands here, label overwritten. Sheet MR-6 applies; depot Tomar, note N-9046.",
    ("Tomar", "CG-47750"): "CG-47750 stands here in bay 2, damaged. Sheet DM-9 applies.",
    ("Lagos", "RC-8840"): "RC-8840 for CG-49118: signed 2026-05-04, no remark on damage. Sheet DM-9 applies.",
    ("Elvas", "CG-52286"): "CG-52286 stands here in bay 9, wet, damaged. Sheet DM-9 applies.",
    ("Evora", "N-3172"): "N-3172: the trailer with CG-51907 was emptied by mistake at depot Sines, which had it last.",
    ("Tomar", "N-9046"): "N-9046: the label of CG-50364 was our mistake; its right destination is depot Viseu.",
}
REPORTS = {  # consignment, kind of check, depot: result
    ("CG-48213", "inspection", "Elvas"): "damage 60 percent, seal broken. Contract CN-3107.",
    ("CG-51907", "search", "Sines"): "13 cartons found, missing for good 7 of 20. Contract CN-2284.",
    ("CG-50364", "reweighing", "Guarda"): "weight 612 kg. Contract CN-4419.",
    ("CG-47750", "inspection", "Tomar"): "damage 45 percent, seal intact. Contract CN-2960.",
    ("CG-52286", "inspection", "Elvas"): "damage 35 percent, seal broken. Contract CN-3107.",
}
SHEETS = {
    "TR-4": """Tracing, for all cases. 1. First put one hold on each consignment that is not DELIVERED. Holds stay.
2. Then ask the depot that the manifest (M-...) names for the consignment, quoting the number of the hold, or that of
   the receipt if it was delivered. The depot names the sheet for the rest. The report of a check names the contract.
3. A credit is one sum, to the account that the contract names. Mails go to the account of the consignment.
4. Who is credited, gets a re-dispatch or is refused gets exactly one mail, which quotes the number of the credit, of
   the re-dispatch or, if refused, of the receipt. Only then is the case closed, with the mail's number as reference.
5. Where a credit would be more than 5000 euros the case is escalated: no credit, no re-dispatch, no mail. It is closed
   with the number of the check as reference. Resolutions: credited, redispatched, refused, escalated.""",
    "DM-9": """Damage. 1. Delivered, no remark on the receipt, reported over 3 days after signing: refused, no check.
2. Not delivered: order one inspection, where the consignment stands. No re-dispatch, whatever the customer wishes.
3. Loss: declared value times damage. At most: the contract's limit per kg times the weight of the whole consignment.
4. Credit: the smaller of the two, minus the deductible. It is due whether the customer asked for money or not.
5. Food whose seal is broken counts as damaged 100 percent. At 100 percent the whole freight is added to the credit.""",
    "LS-2": """Loss. 1. Ask the depot named with the note, quoting it; order one search where the goods were last.
2. Loss: declared value times the missing share of the cartons. At most: the limit per kg times that share of the kg.
3. Credit: the smaller of the two, plus the same share of the freight. No deductible, and no re-dispatch.""",
    "MR-6": """Misrouted. 1. Ask the depot named with the note, quoting it: it knows the right destination.
2. Order one reweighing, at the depot where the consignment stands.
3. Re-dispatch it to the right destination, by the line that the contract names for the reported weight. No credit.""",
}


def _rows(sql: str, *values: object) -> list[tuple]:
    base = sqlite3.connect(PATH, isolation_level=None, timeout=20)
    rows = base.execute(sql, values).fetchall()
    base.close()
    return rows


def reset() -> None:
    """Make the database new: nothing is held, ordered, credited, sent or closed."""
    Path(PATH).unlink(missing_ok=True)
    _rows("CREATE TABLE effects(number UNIQUE, tool, args)")
    _rows("CREATE TABLE calls(n INTEGER PRIMARY KEY, tool, args, answer)")


def _done(tool: str, answer: str, *args: object) -> str:
    _rows("INSERT INTO calls(tool, args, answer) VALUES(?,?,?)", tool, json.dumps(args), answer)
    return answer


def _act(tool: str, ok: bool, word: str, *args: object) -> str:
    """Do a lasting call, also if it was done before. Its number can't be guessed and depends on `args` alone."""
    for turn in range(1000 if ok else 0):
        number = f"{word}-{1000 + zlib.crc32(json.dumps([tool, args, turn]).encode()) % 9000}"
        if _rows("INSERT OR IGNORE INTO effects VALUES(?,?,?) RETURNING 1", number.split()[1], tool, json.dumps(args)):
            return _done(tool, f"done: {number} for {args[0]}", *args)
    return _done(tool, "not done: an argument is unknown", *args)


def _held(hold: object) -> str | None:
    holds = _rows("SELECT number, args FROM effects WHERE tool='place_hold'")
    return next((json.loads(args)[0] for number, args in holds if number == hold), None)


def _effects() -> list[tuple]:
    """What was done: number, tool, arguments (the consignment in place of its hold)."""
    rows = [(number, tool, *json.loads(args)) for number, tool, args in _rows("SELECT * FROM effects")]
    return [(number, tool, _held(first) or first, *rest) for number, tool, first, *rest in rows]


def lookup(number: str) -> str:
    """Look up a case (K-...), consignment (CG-...), manifest (M-...), contract (CN-...) or a check's report (Q-...)."""
    checks = [tuple(args) for n, tool, *args in _effects() if (n, tool) == (number, "order_check")]
    answer = REPORTS.get(checks[0], "nothing to report") if checks else RECORDS.get(number, "no such number")
    return _done("lookup", answer, number)


def ask_depot(depot: Depot, reference: str) -> str:
    """Ask a depot what it knows, quoting the number of a hold (H-...), a receipt (RC-...) or a note (N-...)."""
    answer = "" if reference in RECORDS else RECORDS.get((depot, _held(reference) or reference))
    return _done("ask_depot", answer or f"depot {depot} knows nothing of {reference}", depot, reference)


def read_sheet(sheet: str) -> str:
    """Read a rule sheet by its code."""
    return _done("read_sheet", SHEETS.get(sheet, "no such sheet"), sheet)


def place_hold(consignment: str) -> str:
    """Put a hold on a consignment (CG-...). Final."""
    return _act("place_hold", consignment.startswith("CG-") and consignment in RECORDS, "hold H", consignment)


def order_check(hold: str, kind: Literal["inspection", "search", "reweighing"], depot: Depot) -> str:
    """Order a check of a held consignment (H-...) at a depot; its report can be looked up at once. Final."""
    return _act("order_check", bool(_held(hold)), "check Q", hold, kind, depot)


def book_credit(case_id: str, account: int, amount: float) -> str:
    """Credit an amount in euros to an account for a case. Final."""
    return _act("book_credit", case_id in CASES, "credit CR", case_id, account, round(amount, 2))


def redispatch(hold: str, depot: Depot, line: str) -> str:
    """Send a held consignment (H-...) to a depot by a line (L-...). Final."""
    return _act("redispatch", bool(_held(hold)), "re-dispatch RD", hold, depot, line)


def send_mail(account: int, subject: str, body: str) -> str:
    """Send a mail to the customer of an account. Final."""
    return _act("send_mail", True, "mail ML", account, subject, body)


def close_case(case_id: str, resolution: Resolution, reference: str) -> str:
    """Close a case, with the reference that the sheet demands. Final."""
    return _act("close_case", case_id in CASES, "closing CL", case_id, resolution, reference)


TOOLS = [lookup, ask_depot, read_sheet, place_hold, order_check, book_credit, redispatch, send_mail, close_case]
EFFECTS = {tool.__name__: "repeatable" for tool in TOOLS[:3]}
WANT = [  # what the sheets demand: a mail stands with what it quotes, a closing with what its reference names
    *(("place_hold", check[0]) for check in REPORTS),
    *(("order_check", *check) for check in REPORTS),
    ("book_credit", "K-201", 8810, 4680.00),
    ("book_credit", "K-202", 7204, 2133.60),
    ("book_credit", "K-206", 8810, 1908.40),
    ("redispatch", "CG-50364", "Viseu", "L-35"),
    ("send_mail", 7731, "book_credit K-201"),
    ("close_case", "K-201", "credited", "send_mail 7731"),
    ("send_mail", 7204, "book_credit K-202"),
    ("close_case", "K-202", "credited", "send_mail 7204"),
    ("send_mail", 7460, "redispatch CG-50364"),
    ("close_case", "K-203", "redispatched", "send_mail 7460"),
    ("send_mail", 7088, "receipt RC-8840"),
    ("close_case", "K-205", "refused", "send_mail 7088"),
    ("send_mail", 7352, "book_credit K-206"),
    ("close_case", "K-206", "credited", "send_mail 7352"),
    ("close_case", "K-204", "escalated", "order_check CG-47750"),
]


def diff() -> list[str]:
    """What differs from what the sheets demand: an empty list if all is right."""
    want, have = Counter[tuple](WANT), Counter[tuple]()
    names = {"RC-8840": "receipt RC-8840"} | {n: f"{tool} {first}" for n, tool, first, *_ in _effects()}
    for _, tool, *args in _effects():
        if tool == "send_mail":
            args[1:] = [names[n] for n in names if n[:2] in ("CR", "RD", "RC") and n in " ".join(args[1:])]
        have[tool, *args[:2], *(names.get(arg, arg) for arg in args[2:])] += 1
    return [f"missing: {e}" for e in (want - have).elements()] + [f"too much: {e}" for e in (have - want).elements()]


def _each(pattern: str, texts: dict[str, str]) -> dict[str, str]:
    return {key: match[1] for key, text in texts.items() if (match := re.search(pattern, text))}


def _credit(sheet: str, goods: str, report: str, terms: str) -> float:
    words = (
        r"value (\S+),",
        r"freight (\S+),",
        r", (\d+) kg",
        r"damage (\d+)",
        r"good (\d+)",
        r"good \d+ of (\d+)",
        r"limit (\S+)",
        r"deductible (\S+),",
    )
    value, freight, kg, damage, missing, cartons, limit, deductible = (
        float(_each(word, {"": f"{goods}; {report}; {terms}"}).get("", 0)) for word in words
    )
    if sheet == "LS-2":
        return round((min(value, limit * kg) + freight) * missing / cartons, 2)
    share = 1 if "(food)" in goods and "seal broken" in report else damage / 100
    return round(min(value * share, limit * kg) - deductible + (freight if share == 1 else 0), 2)


def solve() -> list[int]:
    """Make the 60 calls, each round computed from the answers before it; return the number of calls per round."""
    rounds: list[int] = []
    acts: dict[str, tuple] = {}

    def play(calls: dict[str, tuple]) -> dict[str, str]:
        rounds.append(len(calls))
        return {key: tool(*args) for key, (tool, *args) in calls.items()}

    told = play({c: (lookup, c) for c in CASES})
    goods_no = _each(r"(CG-\d+)", told)
    goods = play({c: (lookup, goods_no[c]) for c in told} | {"": (read_sheet, _each(r"Sheet (\S+)", told)[CASES[0]])})
    manifest, receipt, account = (_each(pattern, goods) for pattern in (r"(M-\d+)", r"(RC-\d+)", r"account (\d+)"))
    late = [c for c in told if c not in receipt]
    papers = play({c: (place_hold, goods_no[c]) for c in late} | {m: (lookup, m) for m in set(manifest.values())})
    paper = _each(r"(H-\d+)", papers) | receipt
    depot = {c: _each(n + r" \w+ at (\w+)", papers)[manifest[c]] for c, n in goods_no.items()}
    seen = play({c: (ask_depot, depot[c], paper[c]) for c in told})
    sheet, second, note = (_each(pattern, seen) for pattern in (r"Sheet (\S+)", r"depot (\w+)", r"(N-\d+)"))
    heard = play({s: (read_sheet, s) for s in set(sheet.values())} | {c: (ask_depot, second[c], note[c]) for c in note})
    named = _each(r"depot (\w+)", heard)
    check = {"DM-9": ("inspection", depot), "LS-2": ("search", named), "MR-6": ("reweighing", depot)}
    reported, signed = _each(r"reported (\S+),", told), _each(r"signed (\S+),", seen)
    refused = [c for c in signed if (date.fromisoformat(reported[c]) - date.fromisoformat(signed[c])).days > 3]
    sent = play(
        {c: (order_check, paper[c], check[sheet[c]][0], check[sheet[c]][1][c]) for c in late}
        | {c: (send_mail, int(account[c]), c, f"Refused: no remark on {receipt[c]}.") for c in refused}
    )
    number = _each(r"((Q|ML)-\d+)", sent)
    report = play({c: (lookup, number[c]) for c in late} | {c: (close_case, c, "refused", number[c]) for c in refused})
    contract = _each(r"(CN-\d+)", report)
    terms = play({n: (lookup, n) for n in set(contract.values())})
    for c, term in ((c, terms[contract[c]]) for c in late):
        if sheet[c] == "MR-6":
            line = r"(L-\d+) above" if int(_each(r"(\d+) kg", report)[c]) > 500 else r"(L-\d+) to"
            acts[c] = (redispatch, paper[c], named[c], _each(line, {c: term})[c])
        elif (credit := _credit(sheet[c], goods[c], report[c], term)) > 5000:
            acts[c] = (close_case, c, "escalated", number[c])
        else:
            acts[c] = (book_credit, c, int(_each(r"account (\d+)", {c: term})[c]), credit)
    done = _each(r"((CR|RD)-\d+)", play(acts))
    mail = _each(r"(ML-\d+)", play({c: (send_mail, int(account[c]), c, f"Done: {done[c]}.") for c in done}))
    play({c: (close_case, c, "credited" if done[c].startswith("CR") else "redispatched", mail[c]) for c in done})
    return rounds


if __name__ == "__main__":
    reset()
    print("calls per round", per_round := solve(), "total", sum(per_round), "lasting", len(_effects()), "diff", diff())
