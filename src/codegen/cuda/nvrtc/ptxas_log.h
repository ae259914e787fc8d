// Parses the output of `ptxas -v`.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/nvrtc/nvrtc.h"

namespace heddle::cuda {

/// The resources of all kernels, in the order of their names.
std::vector<KernelResources> parse_resources(const std::string& log);
/// The lines with codes C74xx and C75xx.
std::vector<std::string> parse_warnings(const std::string& log);
/// The line of the first error that names one of `file`: "kernel.cu(12): error: ..."; 0 if none
/// does.
int first_error_line(const std::string& log, const std::string& file);

}  // namespace heddle::cuda
