"""What QBSA_CHECK=1 costs on the call of examples/demo.py: seconds of the check alone, best of five.

python benchmarks/value_check.py
"""

import runpy
import time
from pathlib import Path

import torch
from qbsa import schema, validate, value_check


def main() -> None:
    demo = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "demo.py"))
    inputs, density = demo["make_call"](*demo["make_data"](torch.Generator().manual_seed(1)))
    problem = validate.attention_problem(**(schema.defaults(schema.ATTENTION) | inputs))
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        value_check.check_attention(problem)
        seconds.append(time.perf_counter() - started)
    print(f"{min(seconds):.2f} s with {torch.get_num_threads()} threads; {density}")


if __name__ == "__main__":
    main()
