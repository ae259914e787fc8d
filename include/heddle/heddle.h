// Heddle: compute declarations to fast kernels, with no schedule written.
#pragma once

#include "heddle/dag/compute_dag.h"
#include "heddle/driver/build.h"
#include "heddle/dsl/tensor.h"
#include "heddle/ir/print.h"
#include "heddle/records/database.h"
#include "heddle/records/record.h"
#include "heddle/records/record_log.h"
#include "heddle/records/tophub.h"
#include "heddle/runtime/kernel.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/schedule/schedule.h"
#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "heddle/target/target.h"
