// Heddle turns compute declarations into fast kernels without a hand-written schedule. This header
// includes what most programs use. runtime/cuda.h controls GPUs directly, and driver/export.h
// compiles kernels ahead of time.
#pragma once

#include "heddle/dag/compute_dag.h"
#include "heddle/driver/build.h"
#include "heddle/dsl/arrays.h"
#include "heddle/dsl/tensor.h"
#include "heddle/ir/print.h"
#include "heddle/network/export_network.h"
#include "heddle/network/network.h"
#include "heddle/ops/ops.h"
#include "heddle/records/database.h"
#include "heddle/records/record.h"
#include "heddle/records/record_log.h"
#include "heddle/records/tophub.h"
#include "heddle/runtime/kernel.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/runtime/profile.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/schedule/schedule.h"
#include "heddle/schedule/template.h"
#include "heddle/search/print.h"
#include "heddle/search/tune.h"
#include "heddle/support/error.h"
#include "heddle/target/target.h"
