// The CANN build generates this header; kernels without high-level tiling need only its name for the matmul tiling.
#pragma once

struct TCubeTiling {};
