// The operator library: compute declarations of the usual operators, no schedules.
//
// Every operator checks its arguments (errors name the operator, the argument and the shapes, at
// the caller's line), returns ordinary tensors, and tags its stages with its name. Names and
// argument orders follow ONNX and PyTorch.
#pragma once

#include "heddle/ops/bits.h"         // IWYU pragma: export
#include "heddle/ops/bounded.h"      // IWYU pragma: export
#include "heddle/ops/conv.h"         // IWYU pragma: export
#include "heddle/ops/elementwise.h"  // IWYU pragma: export
#include "heddle/ops/fourier.h"      // IWYU pragma: export
#include "heddle/ops/linalg.h"       // IWYU pragma: export
#include "heddle/ops/nn.h"           // IWYU pragma: export
#include "heddle/ops/paged.h"        // IWYU pragma: export
#include "heddle/ops/pool.h"         // IWYU pragma: export
#include "heddle/ops/random.h"       // IWYU pragma: export
#include "heddle/ops/recurrent.h"    // IWYU pragma: export
#include "heddle/ops/reduce.h"       // IWYU pragma: export
#include "heddle/ops/resize.h"       // IWYU pragma: export
#include "heddle/ops/sample.h"       // IWYU pragma: export
#include "heddle/ops/scatter.h"      // IWYU pragma: export
#include "heddle/ops/search.h"       // IWYU pragma: export
#include "heddle/ops/sort.h"         // IWYU pragma: export
#include "heddle/ops/sparse.h"       // IWYU pragma: export
#include "heddle/ops/transform.h"    // IWYU pragma: export
