// The least time of a task that the peak rate of the machine allows.
#pragma once

#include "heddle/measure/measure.h"

namespace heddle::search {

/// The arithmetic of the cheapest graph of the task over the rate of multiply-adds of its cores, in
/// seconds. Traffic does not count, because inputs may be in caches. 0 where the rate is not known:
/// for GPUs, other machines and arithmetic of several types. The rate of this machine is measured
/// once, in some tens of ms.
double least_seconds(const TuneTask& task);

}  // namespace heddle::search
