#include "network/export/exported_text_parts.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <utility>

#include "runtime/exported/network.h"

namespace heddle::network {
namespace {

int64_t bytes_of(const KernelArg& arg) {
  int64_t bytes = arg.dtype.bytes();
  for (const int64_t extent : arg.shape) bytes *= extent;
  return bytes;
}

void replace_all(std::string& text, const std::string& mark, const std::string& value) {
  for (size_t at = text.find(mark); at != std::string::npos;
       at = text.find(mark, at + value.size()))
    text.replace(at, mark.size(), value);
}

constexpr const char* kFunctions = R"(
#include <stddef.h>
#define EXPORT __attribute__((visibility("default")))

EXPORT void* @name@_open(const char* weights) { return @runtime@_open(&tables, weights); }
EXPORT void @name@_close(void* network) { @runtime@_close(network); }
EXPORT int @name@_num_inputs(void) { return tables.num_inputs; }
EXPORT int @name@_num_outputs(void) { return tables.num_outputs; }
EXPORT const heddle_tensor* @name@_input(int index) {
  return index >= 0 && index < tables.num_inputs ? &tensors[index] : NULL;
}
EXPORT const heddle_tensor* @name@_output(int index) {
  return index >= 0 && index < tables.num_outputs ? &tensors[tables.num_inputs + index] : NULL;
}
EXPORT const char* @name@_error(void) { return heddle_network_error(); }
EXPORT const char* @name@_version(void) { return version; }
EXPORT const char* @name@_plan(void) { return plan; }
)";

/// A string literal with a piece for each line of the text.
std::string lines_text(const std::string& text) {
  std::string out = c_string("");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    out += "\n  " + c_string(text.substr(at, end - at));
    at = end;
  }
  return out;
}

constexpr const char* kSizes = R"(
EXPORT int @name@_num_sizes(void) { return tables.num_sizes; }
EXPORT const heddle_size* @name@_size(int index) {
  return index >= 0 && index < tables.num_sizes ? &sizes[index] : NULL;
}
)";

}  // namespace

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

std::string with_name(std::string text, const std::string& name) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  replace_all(text, "@NAME@", upper);
  replace_all(text, "@name@", name);
  return text;
}

const SymbolicExtent* symbolic_at(const KernelArg& arg, size_t dim) {
  for (const SymbolicExtent& e : arg.symbolic) {
    if (e.dim == static_cast<int>(dim)) return &e;
  }
  return nullptr;
}

std::vector<std::string> size_names(const std::vector<ExportedSize>& sizes) {
  std::vector<std::string> names;
  for (const ExportedSize& s : sizes) {
    // The beginning makes it another word than those of C and those of other parameters.
    std::string name = "size_";
    for (const char c : s.name) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
      name += plain ? c : '_';
    }
    const bool taken = std::find(names.begin(), names.end(), name) != names.end();
    names.push_back(taken ? name + "_" + std::to_string(names.size()) : name);
  }
  return names;
}

std::string size_parameters(const std::vector<ExportedSize>& sizes) {
  std::string text;
  for (const std::string& name : size_names(sizes)) text += "int64_t " + name + ", ";
  return text;
}

std::string tensors_text(const ExportedInterface& interface) {
  std::string text = kExportedTablesText;
  std::vector<KernelArg> tensors = interface.inputs;
  tensors.insert(tensors.end(), interface.outputs.begin(), interface.outputs.end());
  for (size_t i = 0; i < tensors.size(); ++i) {
    text += "static const int64_t shape" + std::to_string(i) + "[] = {";
    for (size_t d = 0; d < tensors[i].shape.size(); ++d)
      text += std::to_string(symbolic_at(tensors[i], d) ? -1 : tensors[i].shape[d]) + ", ";
    text += "0};\n";  // C has no empty arrays, as that of a scalar would be
  }
  text += "static const heddle_tensor tensors[] = {\n";
  for (size_t i = 0; i < tensors.size(); ++i) {
    text += "  {" + c_string(tensors[i].name) + ", " + c_string(to_string(tensors[i].dtype)) +
            ", " + std::to_string(tensors[i].shape.size()) + ", shape" + std::to_string(i) + ", " +
            std::to_string(bytes_of(tensors[i])) + "},\n";
  }
  return text + "};\n";
}

std::string places_text(const std::string& name, const std::vector<ExportedPlace>& places) {
  std::string text = "static const heddle_place " + name + "[] = {";
  for (const ExportedPlace& p : places)
    text += "{" + std::to_string(p.where) + ", " + std::to_string(p.at) + "}, ";
  return text + "{0, 0}};\n";
}

std::string sizes_text(const std::vector<ExportedSize>& sizes) {
  std::string text = "static const heddle_size sizes[] = {";
  for (const ExportedSize& s : sizes) {
    text += "{" + c_string(s.name) + ", " + std::to_string(s.lo) + ", " + std::to_string(s.hi) +
            ", " + std::to_string(s.multiple) + "}, ";
  }
  return text + "{0, 0, 0, 1}};\n";
}

std::string questions_text(const std::string& name, const SizeTree& tree) {
  std::string text = "static const heddle_question " + name + "[] = {";
  for (const TreeNode& q : tree) {
    text += q.feature < 0 ? "{-1, 0, 0, 0, " + std::to_string(q.yes) + "}, "
                          : "{" + std::to_string(q.feature) + ", " +
                                std::to_string(static_cast<int64_t>(q.at_most)) + ", " +
                                std::to_string(q.yes) + ", " + std::to_string(q.no) + ", 0}, ";
  }
  return text + "{-1, 0, 0, 0, 0}};\n";
}

std::string given_text(const std::vector<ExportedSize>& sizes) {
  std::string text = "  const int64_t given[] = {";
  for (const std::string& name : size_names(sizes)) text += name + ", ";
  return text + "0};\n";
}

std::string size_functions_text(const ExportedInterface& interface) {
  return interface.sizes.empty() ? "" : with_name(kSizes, interface.name);
}

std::string functions_text(const ExportedInterface& interface, const std::string& runtime) {
  std::string text = kFunctions;
  replace_all(text, "@runtime@", runtime);
  return "static const char version[] = " + c_string(interface.version) +
         ";\nstatic const char plan[] = " + lines_text(interface.plan) + ";\n" +
         with_name(text, interface.name);
}

}  // namespace heddle::network
