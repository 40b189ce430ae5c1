"""CPU time of one attention call in each mode of the twin, on one thread, as a multiple of mode fast; best of five.

python benchmarks/mode_time.py
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import cases
import qbsa
from qbsa import library

REPEATS = 5
CASE = cases.DSL[1]


def cpu_ms(mode: str, inputs: dict) -> float:
    times = []
    with library.mode(mode):
        library.load(mode).set_threads(1)
        for _ in range(REPEATS):
            started = time.process_time()
            qbsa.quant_block_sparse_attn(**inputs)
            times.append(time.process_time() - started)
    return min(times) * 1000


def main() -> None:
    inputs = cases.make_inputs(CASE)
    times = {mode: cpu_ms(mode, inputs) for mode in library.MODES}
    print(f"{CASE.id}: fast {times['fast']:.0f} ms")
    for mode, taken in times.items():
        print(f"{mode:<8} {taken / times['fast']:.1f}")


if __name__ == "__main__":
    main()
