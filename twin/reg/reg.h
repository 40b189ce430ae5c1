// The Reg API: what the kernels' vector functions are written in. Signatures, names and values are the device headers';
// an operation, type or mode without an implementation here does not compile.
#pragma once
#include "arithmetic.h"
#include "cast.h"
#include "compare.h"
#include "fill.h"
#include "load.h"
#include "mask.h"
#include "membar.h"
#include "reduce.h"
#include "store.h"
