"""FP8 block-sparse paged attention for Ascend 950, callable on CPU tensors too. See quant_block_sparse_attn."""

from . import backend, quantize, sparsity
from .attention import quant_block_sparse_attn, quant_block_sparse_attn_metadata
from .capture import capture
from .plan import check_plan, plot_plan, show_plan

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "capture",
    "check_plan",
    "plot_plan",
    "quant_block_sparse_attn",
    "quant_block_sparse_attn_metadata",
    "quantize",
    "show_plan",
    "sparsity",
]

backend.register()
