// The generated C of an exported network: its header, and its tables with the functions around
// them.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <utility>

#include "network/exported_plan.h"
#include "runtime/exported_network.h"

namespace heddle::network {
namespace {

/// A string literal of C. Names come from files, so anything may be in them.
std::string c_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '?') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) {
      char octal[8];
      std::snprintf(octal, sizeof octal, "\\%03o", static_cast<unsigned char>(c));
      out += octal;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// For a comment: what could end it is left out.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != '*' && c != '/' && c != '\\' && std::isprint(static_cast<unsigned char>(c))) out += c;
  }
  return out;
}

int64_t bytes_of(const KernelArg& arg) {
  int64_t bytes = arg.dtype.bytes();
  for (const int64_t extent : arg.shape) bytes *= extent;
  return bytes;
}

std::string with_name(std::string text, const std::string& name) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const auto& [mark, value] : {std::pair<std::string, std::string>{"@NAME@", upper},
                                    std::pair<std::string, std::string>{"@name@", name}}) {
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at))
      text.replace(at, mark.size(), value);
  }
  return text;
}

std::string list_text(const std::vector<KernelArg>& args) {
  std::string text;
  for (size_t i = 0; i < args.size(); ++i) {
    text += " *   " + std::to_string(i) + "  " + plain(args[i].name) + "  " +
            to_string(args[i].dtype) + "[";
    for (size_t d = 0; d < args[i].shape.size(); ++d)
      text += (d ? ", " : "") + std::to_string(args[i].shape[d]);
    text += "]\n";
  }
  return text;
}

constexpr const char* kHeader = R"(#ifndef @NAME@_H
#define @NAME@_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A description of an input or an output. Arrays are contiguous, the last dimension innermost. */
#ifndef HEDDLE_TENSOR
#define HEDDLE_TENSOR
typedef struct {
  const char* name;
  const char* dtype; /* "f32", "i64", "bool", ... */
  int32_t rank;
  const int64_t* shape;
  int64_t bytes;
} heddle_tensor;
#endif

typedef struct @name@_network @name@_network;

/* Maps the weights; NULL: @name@.weights in the folder of this library. NULL: an error, see @name@_error. */
@name@_network* @name@_open(const char* weights);
/* Runs the network on arrays in the order of @name@_input and @name@_output. Outputs overlap nothing. Several threads may
 * call at the same time. 0: done; else see @name@_error. */
int @name@_run(@name@_network* network, const void* const* inputs, void* const* outputs);
/* Gives back what @name@_open took; NULL is fine. */
void @name@_close(@name@_network* network);

int @name@_num_inputs(void);
int @name@_num_outputs(void);
/* NULL where there is no such input or output. */
const heddle_tensor* @name@_input(int index);
const heddle_tensor* @name@_output(int index);
/* What went wrong last in this thread. */
const char* @name@_error(void);
/* How many threads calls may use, for the whole process; 0: one for each physical core. */
void @name@_set_threads(int count);

#ifdef __cplusplus
}
#endif
#endif
)";

constexpr const char* kFunctions = R"(
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define EXPORT __attribute__((visibility("default")))

EXPORT void* @name@_open(const char* weights) {
  if (weights != NULL) return heddle_network_open(&tables, weights);
  /* The file beside the library that this function is in. */
  Dl_info info;
  const char* library = dladdr((const void*)&tables, &info) != 0 ? info.dli_fname : "";
  const char* slash = strrchr(library, '/');
  const size_t folder = slash == NULL ? 0 : (size_t)(slash - library) + 1;
  const char* file = "@name@.weights";
  char* path = malloc(folder + strlen(file) + 1);
  if (path == NULL) return NULL;
  memcpy(path, library, folder);
  strcpy(path + folder, file);
  heddle_network* network = heddle_network_open(&tables, path);
  free(path);
  return network;
}
EXPORT int @name@_run(void* network, const void* const* inputs, void* const* outputs) {
  return heddle_network_run(network, inputs, outputs);
}
EXPORT void @name@_close(void* network) { heddle_network_close(network); }
EXPORT int @name@_num_inputs(void) { return tables.num_inputs; }
EXPORT int @name@_num_outputs(void) { return tables.num_outputs; }
EXPORT const heddle_tensor* @name@_input(int index) {
  return index >= 0 && index < tables.num_inputs ? &tensors[index] : NULL;
}
EXPORT const heddle_tensor* @name@_output(int index) {
  return index >= 0 && index < tables.num_outputs ? &tensors[tables.num_inputs + index] : NULL;
}
EXPORT const char* @name@_error(void) { return heddle_network_error(); }
EXPORT void @name@_set_threads(int count) { heddle_network_set_threads(count); }
)";

}  // namespace

std::string header_text(const ExportedPlan& plan) {
  std::string text =
      "/* " + plan.name + ": a network, compiled for " + plain(plan.target) + ".\n *\n";
  text += " * Inputs:\n" + list_text(plan.inputs) + " * Outputs:\n" + list_text(plan.outputs);
  text += " */\n";
  return text + with_name(kHeader, plan.name);
}

std::string tables_text(const ExportedPlan& plan) {
  std::string text = kExportedTablesText;
  std::vector<KernelArg> tensors = plan.inputs;
  tensors.insert(tensors.end(), plan.outputs.begin(), plan.outputs.end());
  for (size_t i = 0; i < tensors.size(); ++i) {
    text += "static const int64_t shape" + std::to_string(i) + "[] = {";
    for (const int64_t extent : tensors[i].shape) text += std::to_string(extent) + ", ";
    text += "0};\n";  // a scalar's would be empty, which C does not have
  }
  text += "static const heddle_tensor tensors[] = {\n";
  for (size_t i = 0; i < tensors.size(); ++i) {
    text += "  {" + c_string(tensors[i].name) + ", " + c_string(to_string(tensors[i].dtype)) +
            ", " + std::to_string(tensors[i].shape.size()) + ", shape" + std::to_string(i) + ", " +
            std::to_string(bytes_of(tensors[i])) + "},\n";
  }
  text += "};\n";
  std::vector<std::string> declared;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const ExportedStep& step = plan.steps[s];
    if (std::find(declared.begin(), declared.end(), step.entry) == declared.end()) {
      text += "int " + step.entry + "(void* const* parameters);\n";
      declared.push_back(step.entry);
    }
    text += "static const heddle_place places" + std::to_string(s) + "[] = {";
    for (const ExportedPlace& p : step.places)
      text += "{" + std::to_string(p.where) + ", " + std::to_string(p.at) + "}, ";
    text += "{0, 0}};\n";
  }
  text += "static const heddle_step steps[] = {\n";
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    text += "  {" + c_string(plan.steps[s].name) + ", " + plan.steps[s].entry + ", " +
            std::to_string(plan.steps[s].places.size()) + ", places" + std::to_string(s) + "},\n";
  }
  text += "  {0, 0, 0, 0}};\nstatic const char* const features[] = {";
  for (const std::string& feature : plan.features) text += c_string(feature) + ", ";
  text += "0};\nstatic const heddle_network_tables tables = {" + std::to_string(kExportedVersion) +
          ", " + c_string(plan.name) + ", " + c_string(plan.target) + ", " +
          std::to_string(plan.features.size()) + ", features, " +
          std::to_string(plan.inputs.size()) + ", " + std::to_string(plan.outputs.size()) +
          ", tensors, " + std::to_string(plan.steps.size()) + ", steps, " +
          std::to_string(plan.arena_bytes) + ", " + std::to_string(plan.weights_bytes) + ", " +
          std::to_string(plan.weights_hash) + "u};\n";
  return "#define _GNU_SOURCE\n" + text + with_name(kFunctions, plan.name);
}

}  // namespace heddle::network
