// Pieces of generated C that exported networks for CPUs and for GPUs share.
#pragma once

#include <string>
#include <vector>

#include "network/export/exported_plan.h"

namespace heddle::network {

/// A string literal of C. Names come from files, so they may contain any characters.
std::string c_string(const std::string& text);

/// `text` with @name@ and @NAME@ replaced.
std::string with_name(std::string text, const std::string& name);

/// What an extent of an argument depends on; null where it is constant.
const SymbolicExtent* symbolic_at(const KernelArg& arg, size_t dim);

/// The sizes as parameters of a C function: their names, and "int64_t size_n, ".
std::vector<std::string> size_names(const std::vector<ExportedSize>& sizes);
std::string size_parameters(const std::vector<ExportedSize>& sizes);

/// The array `sizes`, with an unused last element.
std::string sizes_text(const std::vector<ExportedSize>& sizes);

/// The array `name` of the questions that name a kernel of a step.
std::string questions_text(const std::string& name, const SizeTree& tree);

/// The sizes of a call as an array of the function that it is the beginning of.
std::string given_text(const std::vector<ExportedSize>& sizes);

/// The functions about sizes, which only networks with sizes have.
std::string size_functions_text(const ExportedInterface& interface);

/// The declarations of what the tables consist of, and the array `tensors`: inputs, then outputs.
std::string tensors_text(const ExportedInterface& interface);

/// The array `name` of places, with an unused last element, because C has no empty arrays.
std::string places_text(const std::string& name, const std::vector<ExportedPlace>& places);

/// The functions that all libraries have, which use `tables`. `runtime` begins the names of the
/// runtime's functions: "heddle_network".
std::string functions_text(const ExportedInterface& interface, const std::string& runtime);

}  // namespace heddle::network
