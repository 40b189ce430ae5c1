"""Mutation proof of the kernel's synchronisation: `make flags`.

Every flag, barrier, credit, buffer distance and stride of the kernel is dropped or changed, one at a time, while the
twin runs the unchanged library. Each such mutant must be noticed - by an error of race mode, by other bits, or by
hostile mode - or match an entry of flags_harmless.py, which says why it changes nothing. Prints the table by kind.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import cases
import qbsa
import torch
from flags_harmless import HARMLESS
from qbsa import backend, library, schema, validate

LOG_VARIABLE = "QBSA_TWIN_LOG"
HARMLESS_SHARE = 0.05
KERNEL = Path(__file__).resolve().parent.parent / "kernels_ascendc"
CORES = {"AIC": 0, "AIV0": 1, "AIV1": 2}
PIPES = {0: ("MTE2", "MTE1", "M", "FIX"), 1: ("MTE2", "V", "MTE3"), 2: ("MTE2", "V", "MTE3")}
AIV1_OFFSET = 16  # the AIC's ids of AIV1's flags
MODES = ("race", "checked", "hostile")
OTHER_BITS = "other bits"
HOW = ("race", "deadlock or rule", "bits", "hostile")


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag as its receiver sees it: a HardEvent of one core, or a mode-4 counter."""

    kernel: int
    core: int
    event: str  # "-": mode 4
    id: int


@dataclasses.dataclass(frozen=True)
class Step:
    """One instruction of a core's program."""

    kernel: int
    core: int
    pipe: str
    sequence: int
    call: str
    at: str
    flag: Flag | None = None
    sets: bool = False
    name: str = ""

    @property
    def works(self):
        return self.flag is None and self.call != "PipeBarrier"

    @property
    def place(self):
        """The statement without its line number, which other edits move."""
        file, line = self.at.split(":")
        statement = " ".join("\n".join((KERNEL / file).read_text().splitlines()[int(line) - 1 :]).split(";")[0].split())
        return f"{file}: {statement}"

    def edit(self, what):
        return f"{what} {self.kernel} {self.core} {self.sequence}"

    def again(self, before):
        """The same flag instruction once more, ahead of `before`."""
        kind = (
            ("set" if self.sets else "wait") if self.flag.event != "-" else "cross-set" if self.sets else "cross-wait"
        )
        number = self.flag.id
        if kind == "cross-set":  # as the sender counts
            number = number % AIV1_OFFSET + (AIV1_OFFSET if self.flag.core == 2 else 0)
        return f"{before.edit('add')} {kind} {self.pipe} {self.flag.event} {number}"


class Run:
    """One small case on one group, with the bits of the unchanged kernel."""

    def __init__(self, inputs):
        problem = validate.attention_problem(**(schema.defaults(schema.ATTENTION) | inputs))
        self.values = backend._values(problem) | {"cores": 1}
        self.problem = problem
        self.steps, self.buffers, self.strides, self.fences = self._observe()
        self.expected = self.bits("checked", "")

    def bits(self, mode, edits):
        """out and lse as bytes; RuntimeError for whatever the twin notices."""
        twin = library.load(mode)
        out, lse = backend._outputs(self.problem)
        plan = backend._plan(twin, self.problem) if self.problem.plan is None else self.problem.plan
        values = self.values | {
            "out": out.data_ptr(),
            "lse": lse.data_ptr(),
            "plan": plan.data_ptr(),
            "workspace": 0,
            "plan_words": plan.numel(),
            "reserved": 0,
        }
        workspace = torch.empty(twin.workspace_bytes(values), dtype=torch.uint8)
        twin.set_mutation(edits)
        try:
            twin.attention(values | {"workspace": workspace.data_ptr()})
        finally:
            twin.set_mutation("")
        return torch.cat([out.view(torch.uint8).flatten(), lse.view(torch.uint8).flatten()])

    def notice(self, edits):
        """Which mode notices the edits and how, or None."""
        for mode in MODES:
            try:
                if not torch.equal(self.bits(mode, edits), self.expected):
                    return mode, OTHER_BITS
            except RuntimeError as error:
                return mode, str(error)
        return None

    def _observe(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            os.environ[LOG_VARIABLE] = str(log)
            try:
                self.bits("race", "")
            finally:
                del os.environ[LOG_VARIABLE]
            lines = [dict(word.split("=", 1) for word in line.split()) for line in log.read_text().splitlines()]
        steps = sorted(
            (_step(line) for line in lines if "seq" in line), key=lambda step: (step.kernel, step.core, step.sequence)
        )
        buffers = {line["buffer"] + " in " + line["memory"]: line for line in lines if "buffer" in line}
        strides = sorted({(line["at"], line["stride"]) for line in lines if "stride" in line})
        functions = library.load("race").report()["vector_functions"]
        fences = {name: done["ops"].get("LocalMemBar", 0) // done["calls"] for name, done in functions.items()}
        return steps, buffers, strides, fences


def _step(line):
    kernel, core = int(line["kernel"]), CORES[line["core"]]
    flag, sets = None, False
    if "set" in line or "wait" in line:
        sets = "set" in line
        event, number = line["set" if sets else "wait"].split(":")
        flag = Flag(kernel, core, event, int(number))
    elif "cross-set" in line:
        flag, sets = Flag(kernel, int(line["to"]), "-", int(line["cross-set"])), True
    elif "cross-wait" in line:
        flag = Flag(kernel, core, "-", int(line["cross-wait"]))
    at, name = line["at"], line.get("name", "")
    return Step(kernel, core, line["pipe"], int(line["seq"]), line["call"], at, flag, sets, name)


@functools.cache
def runs():
    """Both masks; tasks with one macro-block and with several, single entries, tails of rows and keys, empty lists,
    tokens of no sequence, scales in either layout, lists that are split, one K scale, rows so far apart that Nd2Nz
    takes them one by one."""
    causal = cases.make_inputs(cases.Case("causal", (2, 1), (300, 60), (700, 130), "random", 5))
    causal["sparse_seq_len"][0, 1, 1] = 0
    causal["cu_seqlens_q"] = torch.tensor([0, 300, 340], dtype=torch.int32)
    length = cases.make_inputs(cases.Case("length", (2, 2), (129, 200), (70, 515), "dense", 0, mask_mode=0))
    length["k_descale"] = length["k_descale"].transpose(1, 2).contiguous().transpose(1, 2)
    split = cases.make_inputs(cases.Case("split", (1, 1), (130, 70), (3000, 2500), "dense", 0))
    split["metadata"] = qbsa.quant_block_sparse_attn_metadata(
        split["sparse_seq_len"], 1, 1, 128, cu_seqlens_q=split["cu_seqlens_q"], max_kv_splits=0
    )
    long = cases.make_inputs(cases.Case("long", (1, 1), (129,), (2100,), "dense", 0, mask_mode=0))
    long["k_descale"] = torch.full((1,), 0.01)
    apart = cases.make_inputs(cases.Case("apart", (1, 1), (40,), (191,), "dense", 0))
    pitch = cases.PITCH_LIMIT + 1
    apart["query"] = cases.with_strides(apart["query"], (pitch, 128, 1))
    for name in ("key", "value"):
        apart[name] = cases.with_strides(apart[name], (128 * pitch, 128, pitch, 1))
    return [Run(causal), Run(length), Run(split), Run(long), Run(apart)]


def mutants():
    """kind -> name of the mutant -> edits for each run."""
    table = collections.defaultdict(lambda: collections.defaultdict(lambda: [[] for _ in runs()]))
    for index, run in enumerate(runs()):
        for kind, name, edits in _mutants_of(run):
            table[kind][name][index].append(edits)
    return {
        kind: {name: ["\n".join(e) for e in edits] for name, edits in named.items()} for kind, named in table.items()
    }


def _mutants_of(run):
    flagged = [step for step in run.steps if step.flag]
    for step in flagged:
        where = f"{step.name} {_id(step)} {step.place}"
        yield ("set dropped" if step.sets else "wait dropped"), where, step.edit("drop")
        above = _work(run, step, reversed_=True)
        if step.sets and above:
            yield "set moved up", where, "\n".join([step.edit("drop"), step.again(above)])
        for pipe in PIPES[step.core]:
            if pipe != step.pipe:
                side = "set" if step.sets else "wait"
                yield "pipe changed", f"{step.name} {_id(step)} {side} on {pipe}", f"{step.edit('pipe')} {pipe}"
    for sets, waits in _by_flag(flagged).values():
        for one, other in zip(sets, waits):
            if _work(run, one, reversed_=True) and _work(run, other, reversed_=False):
                name = f"{one.name} {_id(one)} {one.place} | {other.place}"
                yield "pair dropped", name, one.edit("drop") + "\n" + other.edit("drop")
        if sets[0].flag.event == "-":
            name = f"{sets[0].name} {_id(sets[0])}"
            yield "credit more", name, sets[0].again(sets[0]) + "\n" + waits[-1].again(waits[-1])
    for step in run.steps:
        if step.call == "PipeBarrier":
            yield "PipeBarrier dropped", f"PipeBarrier<PIPE_{step.pipe}> {step.place}", step.edit("drop")
    for function, fences in run.fences.items():
        for fence in range(fences):
            yield "LocalMemBar dropped", f"{function} number {fence}", f"fence {fence} {function}"
    for name, buffer in run.buffers.items():
        if int(buffer["slots"]) > 1:
            yield "distance halved", name, f"halve {buffer['memory']} {buffer['begin']} {buffer['slot_bytes']}"
    for at, parameter in run.strides:
        step = Step(0, 0, "", 0, "", at)
        yield "stride off by one", f"{parameter} {step.place}", f"stride {at} {parameter}"


def _id(step):
    return (
        f"{step.flag.event}:{step.flag.id}" if step.flag.event != "-" else f"{'AIC' if step.flag.core == 0 else 'AIV'}"
    )


def _by_flag(flagged):
    """flag -> its sets and its waits in program order: set k and wait k belong together."""
    table = collections.defaultdict(lambda: ([], []))
    for step in flagged:
        table[step.flag][0 if step.sets else 1].append(step)
    return table


def _work(run, step, reversed_):
    """The nearest instruction of the same pipe that does work, before or behind a step."""
    for other in reversed(run.steps) if reversed_ else run.steps:
        behind = other.sequence < step.sequence if reversed_ else other.sequence > step.sequence
        same_pipe = (other.kernel, other.core, other.pipe) == (step.kernel, step.core, step.pipe)
        if same_pipe and other.works and behind:
            return other
    return None


def notice(edits):
    for run, text in zip(runs(), edits):
        found = run.notice(text) if text else None
        if found:
            return found
    return None


def reason_of(kind, name):
    return next((entry for entry in HARMLESS if entry[0] == kind and name.startswith(entry[1])), None)


def how_noticed(found):
    mode, text = found
    if mode == "hostile":
        return "hostile"
    return "race" if "race: " in text else "bits" if text == OTHER_BITS else "deadlock or rule"


def main():
    started = time.time()
    table = mutants()
    print(f"{'mutants':<22} {'killed':>7} {'harmless':>9} {'total':>6}   noticed by {', '.join(HOW)}")
    unexplained, used, totals = [], set(), [0, 0, 0]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for kind, named in table.items():
            found = list(pool.map(notice, named.values()))
            survivors = [name for name, how in zip(named, found) if how is None]
            for name in survivors:
                entry = reason_of(kind, name)
                used.add(entry)
                unexplained += [] if entry else [f"{kind}: {name}"]
            counts = [len(named) - len(survivors), len(survivors), len(named)]
            totals = [a + b for a, b in zip(totals, counts)]
            ways = collections.Counter(how_noticed(f) for f in found if f)
            how = ", ".join(str(ways[way]) for way in HOW)
            print(f"{kind:<22} {counts[0]:>7} {counts[1]:>9} {counts[2]:>6}   {how}", flush=True)
    print(f"{'all':<22} {totals[0]:>7} {totals[1]:>9} {totals[2]:>6}   in {time.time() - started:.0f} s")
    problems = [f"not noticed and not in flags_harmless.py: {name}" for name in unexplained]
    problems += [f"in flags_harmless.py, but noticed or gone: {entry[:2]}" for entry in HARMLESS if entry not in used]
    if totals[1] > HARMLESS_SHARE * totals[2]:
        problems.append(f"{totals[1]} of {totals[2]} mutants are harmless, allowed is {HARMLESS_SHARE:.0%}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
