// The device calls that kernels of this project use, on the host. Found instead of CANN's header of the same name by
// include path; what is not included here does not exist for them.
#pragma once
#include "calls/data_copy.h"
#include "calls/data_copy_pad.h"
#include "calls/fill.h"
#include "calls/fixpipe.h"
#include "calls/load_data.h"
#include "calls/mmad.h"
#include "calls/sync.h"
#include "calls/system.h"
#include "calls/tensor.h"
#include "calls/types.h"
#include "calls/vector_call.h"
#include "reg/reg.h"
